// DeepSeek V2 and V3, Kimi K2, GLM-4.7-Flash: attention over latents; the first layers dense, the others with
// experts and one more that sees every row.
#include <cmath>

#include "base/error.h"
#include "kernels/math/math.h"
#include "model/arch/config_keys.h"
#include "model/arch/llama_like.h"

namespace butterfly::model {
namespace {

LatentShape read_latent(const ModelFile& file, const ModelConfig& config) {
  const ConfigKeys keys(file);
  LatentShape shape;
  shape.latent = keys.size("attention.kv_lora_rank", 65536);
  shape.rotated = config.rope.rotated;
  shape.value = keys.size("attention.value_length_mla", 65536);
  shape.query_rank = keys.optional_size("attention.q_lora_rank", kSizeMax);
  const size_t key = keys.size("attention.key_length_mla", 65536);
  if (key <= shape.rotated || config.head_dim != shape.latent + shape.rotated)
    fail(Errc::kCorrupt,
         "{}: keys of {} values, {} of them rotated, and latents of {}: expected attention.key_length {}, "
         "found {}",
         file.path().string(), key, shape.rotated, shape.latent, shape.latent + shape.rotated,
         config.head_dim);
  shape.plain = key - shape.rotated;
  shape.scale = 1.0f / std::sqrt(static_cast<float>(key));
  return shape;
}

// Files of stretched models have 0.1 times what scores are magnified by as a multiple of ln(factor);
// rotations then are not, unless the multiple is missing.
void stretch(const ModelFile& file, kernels::RopeParams& rope, float& scale) {
  if (rope.scaling != kernels::RopeScaling::kYarn || !(rope.factor > 1)) return;
  const double log = kernels::log_f64(rope.factor);
  const double multiple = ConfigKeys(file).f32_or("rope.scaling.yarn_log_multiplier", 0) / 0.1;
  rope.attn_factor = multiple > 0 ? 1 / (1 + 0.1 * log) : 1;
  const double magnitude = rope.attn_factor * (1 + 0.1 * log) * (1 + 0.1 * multiple * log);
  scale = static_cast<float>(scale * magnitude * magnitude);
}

}  // namespace

std::vector<LayerState> deepseek2_states(const ModelFile& file, const ModelConfig& config) {
  const LatentShape shape = read_latent(file, config);
  return std::vector<LayerState>(config.layers, {.kind = StateKind::kFull,
                                                 .kv_heads = 1,
                                                 .head_dim = shape.latent + shape.rotated,
                                                 .latent_dim = shape.latent});
}

std::unique_ptr<Network> load_deepseek2(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  const ModelFile& file = weights.file();
  const ConfigKeys keys(file);
  LatentShape shape = read_latent(file, config);
  ModelConfig stretched = config;
  stretch(file, stretched.rope, shape.scale);
  stretched.rope.head_dim = shape.rotated;
  if (keys.f32_or("attention.temperature_scale", 0) != 0)
    fail(Errc::kUnsupported, "{}: key {}: scores that depend on the position are not supported here",
         file.path().string(), keys.key("attention.temperature_scale"));
  const size_t dense = keys.optional_size("leading_dense_block_count", kLayersMax),
               ff = keys.size("expert_feed_forward_length", kSizeMax),
               shared = keys.optional_size("expert_shared_count", 65536) * ff;
  // Files of before the key; GLM-4.7-Flash has sigmoids nevertheless.
  const bool flash = !keys.has("expert_gating_func") && config.vocab == 154880 &&
                     (config.layers == 47 || config.layers == 48);
  const bool normalise = file.metadata().boolean_or(keys.key("expert_weights_norm"), false);
  LlamaStyle style;
  style.attention_of = [&](const BlockLoader& from, nn::TransformerBlock& block) {
    block.latent = from.latent_attention(shape);
  };
  style.feed_forward = [&](const BlockLoader& from, size_t layer) -> FeedForward {
    if (layer < dense) return from.gated_mlp(nn::Activation::kSilu);
    nn::Moe moe = from.moe(ff);
    if (flash) moe.route.by = graph::RouteBy::kSigmoid;
    moe.route.normalise = normalise;
    if (shared > 0) from.add_shared_expert(moe, shared);
    return moe;
  };
  return load_llama_like(stretched, weights, range, style);
}

}  // namespace butterfly::model
