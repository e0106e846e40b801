#include <fmt/format.h>

#include <algorithm>
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
      kv_heads_(decoder.config.layer_kv_heads[layer]),
      head_dim_(state_.attends() ? state_.head_dim : decoder.config.head_dim),
      ff_(decoder.config.layer_ff[layer]),
      layer_(layer),
      index_(layer - decoder.range.begin),
      prefix_(fmt::format("blk.{}.", layer)) {}

nn::Norm BlockLoader::norm(const char* name, nn::NormKind kind) const {
  return {kind, weights_.vector(prefix_ + name + ".weight", config_.dim),
          weights_.optional_vector(prefix_ + name + ".bias", config_.dim), config_.norm_eps};
}

nn::Norm BlockLoader::rms(const char* name, size_t columns) const {
  return {nn::NormKind::kRms, weights_.vector(prefix_ + name + ".weight", columns), {}, config_.norm_eps};
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
  const NamedTensor* tensor = weights_.file().find(prefix_ + name + ".weight");
  if (!weights_.group() || tensor == nullptr) return row_parallel(name, out, in);
  return row_parallel(name, out, in, shards_of(weights_.group(), kind, tensor->dtype, in, out));
}

nn::Linear BlockLoader::row_parallel(const char* name, size_t out, size_t in,
                                     const nn::ShardOwners& owners) const {
  if (!owners) return row_parallel(name, out, in);
  nn::Linear layer = weights_.linear_columns(prefix_ + name, out, in, owners.columns());
  layer.row_parallel = true;
  layer.owners = owners;
  return layer;
}

MemberRange BlockLoader::hidden_rows(const nn::Linear& down, size_t ff) {
  return down.owners ? down.owners.columns() : MemberRange{0, ff};
}

graph::Parameter BlockLoader::vector(const char* name, size_t count, MemberRange here) const {
  graph::Parameter all = weights_.flat_vector(prefix_ + name, count);
  all.value = all.value.slice(0, static_cast<int64_t>(here.begin), static_cast<int64_t>(here.end));
  return all;
}

nn::Linear BlockLoader::rows(const char* name, size_t out, size_t in, MemberRange here) const {
  return weights_.fused_linear(prefix_ + name, {{out, here}}, in)[0];
}

void BlockLoader::add_norms(nn::Attention& attention, AttentionNorms norms) const {
  const bool rows = norms == AttentionNorms::kRows;
  const auto there = [&](const char* name) {
    return norms != AttentionNorms::kNone &&
           (norms != AttentionNorms::kHeadsOrNone || weights_.has(prefix_ + name + ".weight"));
  };
  if (there("attn_q_norm"))
    attention.q_norm = rms("attn_q_norm", rows ? config_.heads * head_dim_ : head_dim_);
  if (there("attn_k_norm") && state_.keeps_keys())
    attention.k_norm = rms("attn_k_norm", rows ? kv_heads_ * head_dim_ : head_dim_);
}

nn::Attention BlockLoader::attention(const AttentionStyle& style) const {
  const ModelConfig& c = config_;
  const size_t kv_cols = kv_heads_ * head_dim_;
  const size_t q_head = style.gated ? 2 * head_dim_ : head_dim_, q_cols = c.heads * q_head;
  nn::Linear out = row_parallel("attn_output", c.dim, c.heads * head_dim_, &LayerShare::heads);
  AttentionPart part{.heads = {0, c.heads}, .kv_heads = {0, kv_heads_}};
  if (out.owners) part = attention_part({c.heads, kv_heads_, head_dim_}, out.owners);
  const size_t group = c.heads / kv_heads_;
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
                .head_dim = head_dim_,
                .params = {.scale = style.scale > 0 ? style.scale
                                                    : 1.0f / std::sqrt(static_cast<float>(head_dim_)),
                           .soft_cap = 0,
                           .window = state_.window},
                .group = group,
                .heads_before = part.heads.begin - part.kv_heads.begin * group},
      .columns_before = part.columns_before,
      .rope_layout = style.layout,
      .name = prefix_ + "attn",
  };
  add_norms(attention, style.norms);
  if (style.norm_values && state_.keeps_keys()) {
    graph::Parameter ones{.name = prefix_ + "attn_v_norm",
                          .value = Tensor::zeros(DType::kF32, {static_cast<int64_t>(head_dim_)})};
    std::fill_n(ones.value.data<float>(), head_dim_, 1.0f);
    attention.v_norm = {nn::NormKind::kRms, std::move(ones), {}, c.norm_eps};
  }
  if (state_.kind == StateKind::kShared) attention.source = state_.source - (layer_ - index_);
  if (style.sinks) weights_.refuse_training("sinks of attention");
  if (style.sinks) attention.sinks = vector("attn_sinks.weight", c.heads, part.heads);
  MemberRange q{part.heads.begin * q_head, part.heads.end * q_head};
  const MemberRange kv{part.kv_heads.begin * head_dim_, part.kv_heads.end * head_dim_};
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
    if (!state_.keeps_keys()) return attention;
    attention.k = rows("attn_k", kv_cols, c.dim, k);
    if (!style.norm_values || weights_.has(prefix_ + "attn_v.weight"))
      attention.v = rows("attn_v", kv_cols, c.dim, kv);
  }
  return attention;
}

nn::LatentAttention BlockLoader::latent_attention(const LatentShape& shape) const {
  const ModelConfig& c = config_;
  const size_t head = shape.plain + shape.rotated;
  weights_.refuse_training("heads of attention over latents");
  nn::LatentAttention attention;
  attention.out = row_parallel("attn_output", c.dim, c.heads * shape.value, &LayerShare::heads);
  AttentionPart part{.heads = {0, c.heads}, .kv_heads = {0, 1}};
  if (attention.out.owners) part = attention_part({c.heads, 1, shape.value}, attention.out.owners);
  const MemberRange q{part.heads.begin * head, part.heads.end * head};
  if (shape.query_rank > 0) {
    attention.q_a = linear("attn_q_a", shape.query_rank, c.dim);
    attention.q_norm = rms("attn_q_a_norm", shape.query_rank);
    attention.q = rows("attn_q_b", c.heads * head, shape.query_rank, q);
  } else {
    attention.q = rows("attn_q", c.heads * head, c.dim, q);
  }
  attention.kv = linear("attn_kv_a_mqa", shape.latent + shape.rotated, c.dim);
  attention.kv_norm = rms("attn_kv_a_norm", shape.latent);
  if (!weights_.has(prefix_ + "attn_k_b.weight") && weights_.has(prefix_ + "attn_kv_b.weight"))
    fail(Errc::kUnsupported,
         "{}: tensor {}attn_kv_b.weight: files of before attn_k_b and attn_v_b are not supported; convert "
         "the model anew",
         weights_.file().path().string(), prefix_);
  attention.keys =
      weights_.stacked(prefix_ + "attn_k_b.weight", c.heads, shape.latent, shape.plain, part.heads);
  attention.values =
      weights_.stacked(prefix_ + "attn_v_b.weight", c.heads, shape.value, shape.latent, part.heads);
  attention.plain = shape.plain;
  attention.rotated = shape.rotated;
  attention.latent = shape.latent;
  attention.value = shape.value;
  attention.shape = {.layer = index_,
                     .heads = part.heads.count(),
                     .kv_heads = part.kv_heads.count(),
                     .head_dim = shape.latent + shape.rotated,
                     .params = {.scale = shape.scale, .soft_cap = 0, .window = state_.window},
                     .group = c.heads,
                     .heads_before = part.heads.begin,
                     .latent_dim = shape.latent};
  attention.columns_before = part.columns_before;
  attention.name = prefix_ + "attn";
  return attention;
}

nn::LayerInput BlockLoader::layer_input() const {
  const size_t cols = config_.layer_input_cols;
  weights_.refuse_training("inputs that layers have of their own");
  return {.gate = linear("inp_gate", cols, config_.dim),
          .out = linear("proj", config_.dim, cols),
          .norm = norm("post_norm"),
          .name = prefix_ + "inp"};
}

float BlockLoader::output_scale() const {
  const graph::Parameter scale = weights_.optional_vector(prefix_ + "layer_output_scale.weight", 1);
  return scale ? scale.value.data<float>()[0] : 1;
}

nn::Mlp BlockLoader::gated_mlp(nn::Activation activation) const {
  nn::Linear down = row_parallel("ffn_down", config_.dim, ff_, &LayerShare::columns);
  const MemberRange here = hidden_rows(down, ff_);
  return {.activation = activation,
          .gate = rows("ffn_gate", ff_, config_.dim, here),
          .up = rows("ffn_up", ff_, config_.dim, here),
          .down = std::move(down),
          .name = prefix_ + "ffn"};
}

nn::Mlp BlockLoader::fused_gated_mlp(nn::Activation activation) const {
  nn::Linear down = row_parallel("ffn_down", config_.dim, ff_, &LayerShare::columns);
  const MemberRange here = hidden_rows(down, ff_);
  auto parts = weights_.fused_linear(prefix_ + "ffn_up", {{ff_, here}, {ff_, here}}, config_.dim);
  return {.activation = activation,
          .gate = std::move(parts[0]),
          .up = std::move(parts[1]),
          .down = std::move(down),
          .name = prefix_ + "ffn"};
}

nn::Mlp BlockLoader::plain_mlp(nn::Activation activation) const {
  nn::Linear down = row_parallel("ffn_down", config_.dim, ff_, &LayerShare::columns);
  const MemberRange here = hidden_rows(down, ff_);
  return {.activation = activation,
          .gate = {},
          .up = rows("ffn_up", ff_, config_.dim, here),
          .down = std::move(down),
          .name = prefix_ + "ffn"};
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

nn::Moe BlockLoader::moe(size_t ff, nn::Activation activation) const {
  const ConfigKeys keys(weights_.file());
  const size_t experts = keys.size("expert_count", 65536);
  size_t dim = config_.dim;
  nn::Moe moe;
  moe.router = linear("ffn_gate_inp", experts, dim);
  if (const size_t latent = keys.optional_size("moe_latent_size", kSizeMax);
      latent > 0 && weights_.has(prefix_ + "ffn_latent_down.weight")) {
    moe.latent_down = linear("ffn_latent_down", latent, dim);
    moe.latent_up = linear("ffn_latent_up", dim, latent);
    dim = latent;
  }
  MemberRange here{0, experts};
  if (weights_.group()) {
    moe.owners = things_of(weights_.group(), &LayerShare::experts, experts);
    moe.self = weights_.group().self;
    here = moe.owners[moe.self];
  }
  const std::string fused = prefix_ + "ffn_gate_up_exps.weight";
  const auto adapters = [&](const char* name, size_t out, size_t in, size_t& site) {
    const std::string stacked = prefix_ + name + "_exps.weight";
    if (!weights_.has(stacked)) return std::vector<nn::ExpertLowRank>();  // an old file, expert by expert
    site = weights_.expert_site(stacked, experts, out, in);
    return weights_.expert_adapters(stacked, experts, out, in, here);
  };
  if (weights_.has(fused)) {
    std::tie(moe.gate, moe.up) = weights_.fused_experts(fused, experts, ff, dim, here);
    moe.gate_up_adapters = adapters("ffn_gate_up", 2 * ff, dim, moe.gate_up_site);
  } else {
    if (activation != nn::Activation::kSquaredRelu) {
      moe.gate = weights_.experts(prefix_ + "ffn_gate", experts, ff, dim, here);
      moe.gate_adapters = adapters("ffn_gate", ff, dim, moe.gate_site);
    }
    moe.up = weights_.experts(prefix_ + "ffn_up", experts, ff, dim, here);
    moe.up_adapters = adapters("ffn_up", ff, dim, moe.up_site);
  }
  moe.down = weights_.experts(prefix_ + "ffn_down", experts, dim, ff, here);
  moe.down_adapters = adapters("ffn_down", dim, ff, moe.down_site);
  moe.route = read_route(weights_.file(), keys, experts);
  moe.selection_bias = weights_.optional_vector(prefix_ + "exp_probs_b.bias", experts);
  moe.activation = activation;
  moe.name = prefix_ + "ffn";
  return moe;
}

nn::MoeBeside BlockLoader::moe_beside(size_t ff) const {
  nn::MoeBeside beside{.router_norm = {nn::NormKind::kRms,
                                       weights_.vector(prefix_ + "ffn_gate_inp.scale", config_.dim),
                                       {},
                                       config_.norm_eps},
                       .norm = norm("pre_ffw_norm_2"),
                       .dense_post_norm = norm("post_ffw_norm_1"),
                       .post_norm = norm("post_ffw_norm_2"),
                       .moe = moe(ff, nn::Activation::kGelu)};
  // The router's rows are divided by the root of their length besides.
  float* weights = beside.router_norm.weight.value.data<float>();
  for (size_t i = 0; i < config_.dim; ++i) weights[i] /= std::sqrt(static_cast<float>(config_.dim));
  const auto experts = static_cast<size_t>(beside.moe.router.out());
  beside.moe.expert_scale = weights_.optional_vector(prefix_ + "ffn_down_exps.scale", experts);
  beside.moe.name = prefix_ + "ffn_moe";
  return beside;
}

void BlockLoader::add_shared_expert(nn::Moe& moe, size_t ff) const {
  nn::Linear down = row_parallel("ffn_down_shexp", config_.dim, ff, &LayerShare::columns);
  const MemberRange here = hidden_rows(down, ff);
  const bool gated = moe.activation != nn::Activation::kSquaredRelu;
  moe.shared = nn::Mlp{.activation = moe.activation,
                       .gate = gated ? rows("ffn_gate_shexp", ff, config_.dim, here) : nn::Linear{},
                       .up = rows("ffn_up_shexp", ff, config_.dim, here),
                       .down = std::move(down),
                       .name = prefix_ + "ffn_shexp"};
  if (weights_.has(prefix_ + "ffn_gate_inp_shexp.weight"))
    moe.shared_gate = weights_.linear_row(prefix_ + "ffn_gate_inp_shexp", config_.dim);
}

}  // namespace butterfly::model
