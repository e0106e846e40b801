// MiniMax M2: experts chosen by sigmoids and a bias, queries and keys normalised by whole rows, and half of
// each head rotated.
#include "model/arch/llama_like.h"

namespace butterfly::model {

std::unique_ptr<Network> load_minimax_m2(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  LlamaStyle style{.attention = {.layout = kernels::RopeLayout::kHalfSplit, .norms = AttentionNorms::kRows}};
  style.feed_forward = [ff = expert_columns(weights.file(), config)](const BlockLoader& from, size_t) {
    return from.moe(ff);
  };
  return load_llama_like(config, weights, range, style);
}

}  // namespace butterfly::model
