#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "model/arch/config_keys.h"
#include "model/arch/decoder.h"

namespace butterfly::model {

BlockLoader::BlockLoader(const Decoder& decoder, WeightLoader& weights, size_t layer)
    : config_(decoder.config),
      weights_(weights),
      index_(layer - decoder.range.begin),
      prefix_(fmt::format("blk.{}.", layer)) {}

nn::Norm BlockLoader::norm(const char* name, nn::NormKind kind) const {
  return {kind, weights_.vector(prefix_ + name + ".weight", config_.dim),
          weights_.optional_vector(prefix_ + name + ".bias", config_.dim), config_.norm_eps};
}

nn::Norm BlockLoader::head_norm(const char* name) const {
  return {nn::NormKind::kRms,
          weights_.vector(prefix_ + name + ".weight", config_.head_dim),
          {},
          config_.norm_eps};
}

nn::Linear BlockLoader::linear(const char* name, size_t out, size_t in) const {
  return weights_.linear(prefix_ + name, out, in);
}

nn::Attention BlockLoader::attention(kernels::RopeLayout layout) const {
  const ModelConfig& c = config_;
  const size_t q_cols = c.heads * c.head_dim, kv_cols = c.kv_heads * c.head_dim;
  nn::Attention attention{
      .q = {},
      .k = {},
      .v = {},
      .out = linear("attn_output", c.dim, q_cols),
      .q_norm = {},
      .k_norm = {},
      .shape = {.layer = index_,
                .heads = c.heads,
                .kv_heads = c.kv_heads,
                .head_dim = c.head_dim,
                .params = {.scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim)),
                           .soft_cap = 0,
                           .window = 0}},
      .rope_layout = layout,
      .name = prefix_ + "attn",
  };
  if (weights_.has(prefix_ + "attn_qkv.weight")) {
    auto parts = weights_.fused_linear(prefix_ + "attn_qkv", {q_cols, kv_cols, kv_cols}, c.dim);
    attention.q = std::move(parts[0]);
    attention.k = std::move(parts[1]);
    attention.v = std::move(parts[2]);
  } else {
    attention.q = linear("attn_q", q_cols, c.dim);
    attention.k = linear("attn_k", kv_cols, c.dim);
    attention.v = linear("attn_v", kv_cols, c.dim);
  }
  return attention;
}

nn::Mlp BlockLoader::gated_mlp(nn::Activation activation) const {
  return {.activation = activation,
          .gate = linear("ffn_gate", config_.ff, config_.dim),
          .up = linear("ffn_up", config_.ff, config_.dim),
          .down = linear("ffn_down", config_.dim, config_.ff),
          .name = prefix_ + "ffn"};
}

nn::Mlp BlockLoader::fused_gated_mlp(nn::Activation activation) const {
  auto parts = weights_.fused_linear(prefix_ + "ffn_up", {config_.ff, config_.ff}, config_.dim);
  return {.activation = activation,
          .gate = std::move(parts[0]),
          .up = std::move(parts[1]),
          .down = linear("ffn_down", config_.dim, config_.ff),
          .name = prefix_ + "ffn"};
}

nn::Mlp BlockLoader::plain_mlp() const {
  return {.activation = nn::Activation::kGelu,
          .gate = {},
          .up = linear("ffn_up", config_.ff, config_.dim),
          .down = linear("ffn_down", config_.dim, config_.ff),
          .name = prefix_ + "ffn"};
}

nn::Moe BlockLoader::moe(size_t ff) const {
  const ConfigKeys keys(weights_.file());
  const size_t experts = keys.size("expert_count", 65536);
  const float scale = keys.f32_or("expert_weights_scale", 0);
  // Router probabilities are a softmax over all experts; files that want another function say so.
  const size_t gating = keys.optional_size("expert_gating_func", 255);
  if (gating > 1)
    fail(Errc::kUnsupported, "{}: key {}: expected 1 (softmax), found {}", weights_.file().path().string(),
         keys.key("expert_gating_func"), gating);
  const size_t dim = config_.dim;
  return {.router = linear("ffn_gate_inp", experts, dim),
          .gate = weights_.experts(prefix_ + "ffn_gate", experts, ff, dim),
          .up = weights_.experts(prefix_ + "ffn_up", experts, ff, dim),
          .down = weights_.experts(prefix_ + "ffn_down", experts, dim, ff),
          .used = keys.size("expert_used_count", experts),
          .scale = scale == 0 ? 1.0f : scale,
          .activation = nn::Activation::kSilu,
          .name = prefix_ + "ffn"};
}

}  // namespace butterfly::model
