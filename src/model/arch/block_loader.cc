#include <fmt/format.h>

#include <cmath>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "model/arch/config_keys.h"
#include "model/arch/decoder.h"

namespace butterfly::model {

BlockLoader::BlockLoader(const Decoder& decoder, WeightLoader& weights, size_t layer)
    : config_(decoder.config),
      weights_(weights),
      state_(decoder.config.states[layer]),
      index_(layer - decoder.range.begin),
      prefix_(fmt::format("blk.{}.", layer)) {}

nn::Norm BlockLoader::norm(const char* name, nn::NormKind kind) const {
  return {kind, weights_.vector(prefix_ + name + ".weight", config_.dim),
          weights_.optional_vector(prefix_ + name + ".bias", config_.dim), config_.norm_eps};
}

nn::Linear BlockLoader::linear(const char* name, size_t out, size_t in) const {
  return weights_.linear(prefix_ + name, out, in);
}

nn::Linear BlockLoader::row_parallel(const char* name, size_t out, size_t in) const {
  nn::Linear layer = linear(name, out, in);
  layer.row_parallel = true;
  return layer;
}

nn::Linear BlockLoader::row_parallel(const char* name, size_t out, size_t in,
                                     UnitRange LayerShare::*kind) const {
  const std::string stem = prefix_ + name;
  const NamedTensor* tensor = weights_.file().find(stem + ".weight");
  if (!weights_.group() || tensor == nullptr) return row_parallel(name, out, in);
  const nn::ShardOwners owners = shards_of(weights_.group(), kind, tensor->dtype, in, out);
  nn::Linear layer = weights_.linear_columns(stem, out, in, owners.columns());
  layer.row_parallel = true;
  layer.owners = owners;
  return layer;
}

MemberRange BlockLoader::hidden_rows(const nn::Linear& down, size_t ff) {
  return down.owners ? down.owners.columns() : MemberRange{0, ff};
}

nn::Linear BlockLoader::rows(const char* name, size_t out, size_t in, MemberRange here) const {
  return weights_.fused_linear(prefix_ + name, {{out, here}}, in)[0];
}

void BlockLoader::add_norms(nn::Attention& attention, AttentionNorms norms) const {
  const ModelConfig& c = config_;
  const auto norm = [&](const char* name, size_t columns) {
    return nn::Norm{nn::NormKind::kRms, weights_.vector(prefix_ + name + ".weight", columns), {}, c.norm_eps};
  };
  const bool rows = norms == AttentionNorms::kRows;
  const auto there = [&](const char* name) {
    return norms != AttentionNorms::kNone &&
           (norms != AttentionNorms::kHeadsOrNone || weights_.has(prefix_ + name + ".weight"));
  };
  if (there("attn_q_norm")) attention.q_norm = norm("attn_q_norm", rows ? c.heads * c.head_dim : c.head_dim);
  if (there("attn_k_norm"))
    attention.k_norm = norm("attn_k_norm", rows ? c.kv_heads * c.head_dim : c.head_dim);
}

nn::Attention BlockLoader::attention(const AttentionStyle& style) const {
  const ModelConfig& c = config_;
  const size_t kv_cols = c.kv_heads * c.head_dim;
  const size_t q_head = style.gated ? 2 * c.head_dim : c.head_dim, q_cols = c.heads * q_head;
  nn::Linear out = row_parallel("attn_output", c.dim, c.heads * c.head_dim, &LayerShare::heads);
  AttentionPart part{.heads = {0, c.heads}, .kv_heads = {0, c.kv_heads}};
  if (out.owners) part = attention_part(c, out.owners);
  const size_t group = c.heads / c.kv_heads;
  nn::Attention attention{
      .q = {},
      .k = {},
      .v = {},
      .out = std::move(out),
      .gated = style.gated,
      .q_norm = {},
      .k_norm = {},
      .shape = {.layer = index_,
                .heads = part.heads.count(),
                .kv_heads = part.kv_heads.count(),
                .head_dim = c.head_dim,
                .params = {.scale = style.scale > 0 ? style.scale
                                                    : 1.0f / std::sqrt(static_cast<float>(c.head_dim)),
                           .soft_cap = 0,
                           .window = state_.window},
                .group = group,
                .heads_before = part.heads.begin - part.kv_heads.begin * group},
      .columns_before = part.columns_before,
      .rope_layout = style.layout,
      .name = prefix_ + "attn",
  };
  add_norms(attention, style.norms);
  if (style.sinks) {
    attention.sinks = weights_.vector(prefix_ + "attn_sinks.weight", c.heads);
    attention.sinks.value = attention.sinks.value.slice(0, static_cast<int64_t>(part.heads.begin),
                                                        static_cast<int64_t>(part.heads.end));
  }
  MemberRange q{part.heads.begin * q_head, part.heads.end * q_head};
  const MemberRange kv{part.kv_heads.begin * c.head_dim, part.kv_heads.end * c.head_dim};
  MemberRange k = kv;
  if (style.norms == AttentionNorms::kRows && part.heads.count() > 0) {
    // A norm over all heads needs all of them: every member computes those, and goes on with its own.
    attention.q_columns = std::exchange(q, {0, q_cols});
    attention.k_columns = std::exchange(k, {0, kv_cols});
  }
  if (weights_.has(prefix_ + "attn_qkv.weight")) {
    auto parts =
        weights_.fused_linear(prefix_ + "attn_qkv", {{q_cols, q}, {kv_cols, k}, {kv_cols, kv}}, c.dim);
    attention.q = std::move(parts[0]);
    attention.k = std::move(parts[1]);
    attention.v = std::move(parts[2]);
  } else {
    attention.q = rows("attn_q", q_cols, c.dim, q);
    attention.k = rows("attn_k", kv_cols, c.dim, k);
    attention.v = rows("attn_v", kv_cols, c.dim, kv);
  }
  return attention;
}

nn::Mlp BlockLoader::gated_mlp(nn::Activation activation) const {
  nn::Linear down = row_parallel("ffn_down", config_.dim, config_.ff, &LayerShare::columns);
  const MemberRange here = hidden_rows(down, config_.ff);
  return {.activation = activation,
          .gate = rows("ffn_gate", config_.ff, config_.dim, here),
          .up = rows("ffn_up", config_.ff, config_.dim, here),
          .down = std::move(down),
          .name = prefix_ + "ffn"};
}

nn::Mlp BlockLoader::fused_gated_mlp(nn::Activation activation) const {
  nn::Linear down = row_parallel("ffn_down", config_.dim, config_.ff, &LayerShare::columns);
  const MemberRange here = hidden_rows(down, config_.ff);
  auto parts =
      weights_.fused_linear(prefix_ + "ffn_up", {{config_.ff, here}, {config_.ff, here}}, config_.dim);
  return {.activation = activation,
          .gate = std::move(parts[0]),
          .up = std::move(parts[1]),
          .down = std::move(down),
          .name = prefix_ + "ffn"};
}

nn::Mlp BlockLoader::plain_mlp() const {
  nn::Linear down = row_parallel("ffn_down", config_.dim, config_.ff, &LayerShare::columns);
  const MemberRange here = hidden_rows(down, config_.ff);
  return {.activation = nn::Activation::kGelu,
          .gate = {},
          .up = rows("ffn_up", config_.ff, config_.dim, here),
          .down = std::move(down),
          .name = prefix_ + "ffn"};
}

nn::ShortConv BlockLoader::short_conv(size_t taps) const {
  const size_t dim = config_.dim;
  const MemberRange all{0, dim};
  auto parts =
      weights_.fused_linear(prefix_ + "shortconv.in_proj", {{dim, all}, {dim, all}, {dim, all}}, dim);
  return {.b = std::move(parts[0]),
          .c = std::move(parts[1]),
          .x = std::move(parts[2]),
          .conv = weights_.transposed(prefix_ + "shortconv.conv.weight", dim, taps),
          .out = row_parallel("shortconv.out_proj", dim, dim),
          .layer = index_,
          .name = prefix_ + "shortconv"};
}

nn::DeltaNet BlockLoader::delta_net(const graph::GatedDeltaShape& shape, size_t taps) const {
  const size_t dim = config_.dim, values = shape.value_heads * shape.value_dim;
  const size_t channels = 2 * shape.key_heads * shape.key_dim + values;
  nn::DeltaNet net;
  if (!weights_.has(prefix_ + "attn_qkv.weight") && weights_.has(prefix_ + "ssm_in.weight"))
    fail(Errc::kUnsupported,
         "{}: tensor {}ssm_in.weight: files of before attn_qkv and attn_gate are not supported",
         weights_.file().path().string(), prefix_);
  net.qkv = linear("attn_qkv", channels, dim);
  net.z = linear("attn_gate", values, dim);
  if (weights_.has(prefix_ + "ssm_ba.weight")) {
    net.beta_alpha = linear("ssm_ba", 2 * shape.value_heads, dim);
  } else {
    net.beta = linear("ssm_beta", shape.value_heads, dim);
    net.alpha = linear("ssm_alpha", shape.value_heads, dim);
  }
  net.conv = weights_.transposed(prefix_ + "ssm_conv1d.weight", channels, taps);
  net.a = weights_.vector(prefix_ + "ssm_a", shape.value_heads);
  net.dt = weights_.vector(prefix_ + "ssm_dt.bias", shape.value_heads);
  net.norm = {nn::NormKind::kRms,
              weights_.vector(prefix_ + "ssm_norm.weight", shape.value_dim),
              {},
              config_.norm_eps};
  net.out = row_parallel("ssm_out", dim, values);
  net.shape = shape;
  net.layer = index_;
  net.eps = config_.norm_eps;
  net.name = prefix_ + "delta_net";
  return net;
}

namespace {

// The router's options, from the "expert_" keys.
graph::RouteOptions read_route(const ModelFile& file, const ConfigKeys& keys, size_t experts) {
  using enum graph::RouteBy;
  constexpr graph::RouteBy kFunctions[] = {kSoftmax, kSoftmax, kSigmoid, kSoftmaxOfChosen, kSqrtSoftplus};
  const size_t function = keys.optional_size("expert_gating_func", 255);
  if (function >= std::size(kFunctions))
    fail(Errc::kUnsupported, "{}: key {}: expected 1 to {}, found {}", file.path().string(),
         keys.key("expert_gating_func"), std::size(kFunctions) - 1, function);
  const float scale = keys.f32_or("expert_weights_scale", 0);
  graph::RouteOptions route;
  route.used = keys.size("expert_used_count", experts);
  route.by = kFunctions[function];
  route.normalise = file.metadata().boolean_or(keys.key("expert_weights_norm"), true);
  route.scale = scale == 0 ? 1.0f : scale;
  route.groups = keys.optional_size("expert_group_count", experts);
  if (route.groups > 1) {
    route.groups_used = keys.size("expert_group_used_count", route.groups);
  } else {
    route.groups = 0;
  }
  return route;
}

}  // namespace

nn::Moe BlockLoader::moe(size_t ff) const {
  const ConfigKeys keys(weights_.file());
  const size_t experts = keys.size("expert_count", 65536), dim = config_.dim;
  nn::Moe moe;
  moe.router = linear("ffn_gate_inp", experts, dim);
  MemberRange here{0, experts};
  if (weights_.group()) {
    moe.owners = things_of(weights_.group(), &LayerShare::experts, experts);
    moe.self = weights_.group().self;
    here = moe.owners[moe.self];
  }
  const std::string fused = prefix_ + "ffn_gate_up_exps.weight";
  if (weights_.has(fused)) {
    std::tie(moe.gate, moe.up) = weights_.fused_experts(fused, experts, ff, dim, here);
  } else {
    moe.gate = weights_.experts(prefix_ + "ffn_gate", experts, ff, dim, here);
    moe.up = weights_.experts(prefix_ + "ffn_up", experts, ff, dim, here);
  }
  moe.down = weights_.experts(prefix_ + "ffn_down", experts, dim, ff, here);
  moe.route = read_route(weights_.file(), keys, experts);
  moe.selection_bias = weights_.optional_vector(prefix_ + "exp_probs_b.bias", experts);
  moe.activation = nn::Activation::kSilu;
  moe.name = prefix_ + "ffn";
  return moe;
}

void BlockLoader::add_shared_expert(nn::Moe& moe, size_t ff) const {
  nn::Linear down = row_parallel("ffn_down_shexp", config_.dim, ff, &LayerShare::columns);
  const MemberRange here = hidden_rows(down, ff);
  moe.shared = nn::Mlp{.activation = nn::Activation::kSilu,
                       .gate = rows("ffn_gate_shexp", ff, config_.dim, here),
                       .up = rows("ffn_up_shexp", ff, config_.dim, here),
                       .down = std::move(down),
                       .name = prefix_ + "ffn_shexp"};
  if (weights_.has(prefix_ + "ffn_gate_inp_shexp.weight"))
    moe.shared_gate = weights_.linear_row(prefix_ + "ffn_gate_inp_shexp", config_.dim);
}

}  // namespace butterfly::model
