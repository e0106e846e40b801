// GPT-2: learned positions, layer norm with biases, fused projections, gelu.
#include "model/arch/decoder.h"

namespace butterfly::model {

std::unique_ptr<Network> load_gpt2(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  auto decoder = std::make_unique<Decoder>(config, weights, range, nn::NormKind::kLayer);
  if (decoder->first())
    decoder->positions = weights.table("position_embd.weight", config.positions_max, config.dim);
  for (size_t layer = range.begin; layer < range.end; ++layer) {
    const BlockLoader from(*decoder, weights, layer);
    nn::TransformerBlock block;
    block.attention_norm = from.norm("attn_norm", nn::NormKind::kLayer);
    block.attention = from.attention({});  // no rotations are built
    block.mlp_norm = from.norm("ffn_norm", nn::NormKind::kLayer);
    block.mlp = from.plain_mlp();
    decoder->blocks.push_back(std::move(block));
  }
  return decoder;
}

}  // namespace butterfly::model
