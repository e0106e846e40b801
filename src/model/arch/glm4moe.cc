// GLM 4.5 to 4.7: the first layers dense, the others with experts and one more that sees every row; a part of
// each head rotated, in halves; biases of queries, keys and values, and in the large model normalised heads.
#include "model/arch/config_keys.h"
#include "model/arch/llama_like.h"

namespace butterfly::model {

std::unique_ptr<Network> load_glm4moe(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  const ConfigKeys keys(weights.file());
  const size_t dense = keys.optional_size("leading_dense_block_count", kLayersMax);
  const size_t ff = expert_columns(weights.file(), config);
  const size_t shared = keys.optional_size("expert_shared_count", 65536) * ff;
  const bool sigmoid = keys.optional_size("expert_gating_func", 255) == 0;
  const bool normalise = weights.file().metadata().boolean_or(keys.key("expert_weights_norm"), false);
  LlamaStyle style{
      .attention = {.layout = kernels::RopeLayout::kHalfSplit, .norms = AttentionNorms::kHeadsOrNone},
      .mlp_norm = "post_attention_norm"};
  style.feed_forward = [&](const BlockLoader& from, size_t layer) -> FeedForward {
    if (layer < dense) return from.gated_mlp(nn::Activation::kSilu);
    nn::Moe moe = from.moe(ff);
    if (sigmoid) moe.route.by = graph::RouteBy::kSigmoid;
    moe.route.normalise = normalise;
    if (shared > 0) from.add_shared_expert(moe, shared);
    return moe;
  };
  return load_llama_like(config, weights, range, style);
}

}  // namespace butterfly::model
