// Qwen 2 and 2.5: as Llama, with biases on queries, keys and values and pairs from the two halves of a head.
#include "model/arch/decoder.h"

namespace butterfly::model {

std::unique_ptr<Network> load_qwen2(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  auto decoder = std::make_unique<Decoder>(config, weights, range);
  decoder->ropes.emplace_back(config.rope);
  for (size_t layer = range.begin; layer < range.end; ++layer) {
    const BlockLoader from(*decoder, weights, layer);
    nn::TransformerBlock block;
    block.attention_norm = from.norm("attn_norm");
    block.attention = from.attention(kernels::RopeLayout::kHalfSplit);
    block.mlp_norm = from.norm("ffn_norm");
    block.mlp = from.gated_mlp(nn::Activation::kSilu);
    decoder->blocks.push_back(std::move(block));
  }
  return decoder;
}

}  // namespace butterfly::model
