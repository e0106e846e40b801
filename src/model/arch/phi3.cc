// Phi 3 and 4: as Llama, with fused projections, pairs from the two halves of a head, and frequency factors
// for long contexts (read with the shared rope keys). As trained, every layer sees the window that the file
// names; llama.cpp leaves it out, which differs beyond that many positions.
#include "model/arch/decoder.h"

namespace butterfly::model {

std::unique_ptr<Network> load_phi3(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  auto decoder = std::make_unique<Decoder>(config, weights, range);
  decoder->ropes.emplace_back(config.rope);
  for (size_t layer = range.begin; layer < range.end; ++layer) {
    const BlockLoader from(*decoder, weights, layer);
    nn::TransformerBlock block;
    block.attention_norm = from.norm("attn_norm");
    block.attention = from.attention(kernels::RopeLayout::kHalfSplit);
    block.mlp_norm = from.norm("ffn_norm");
    block.mlp = from.fused_gated_mlp(nn::Activation::kSilu);
    decoder->blocks.push_back(std::move(block));
  }
  return decoder;
}

}  // namespace butterfly::model
