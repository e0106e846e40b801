// Phi 3 and 4: as Llama, with fused projections, pairs from the two halves of a head, and frequency factors
// for long contexts (read with the shared rope keys). As trained, every layer sees the window that the file
// names; llama.cpp leaves it out, which differs beyond that many positions.
#include "model/arch/llama_like.h"

namespace butterfly::model {

std::unique_ptr<Network> load_phi3(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  LlamaStyle style{.attention = {.layout = kernels::RopeLayout::kHalfSplit}};
  style.feed_forward = [](const BlockLoader& from, size_t) {
    return from.fused_gated_mlp(nn::Activation::kSilu);
  };
  return load_llama_like(config, weights, range, style);
}

}  // namespace butterfly::model
