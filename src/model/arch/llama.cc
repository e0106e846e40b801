// Llama-type networks: rotary positions in interleaved pairs, RMS norm, SwiGLU. With "llama.expert_count" the
// feed-forward parts are mixtures of experts (Mixtral). With a sliding window every layer has it (Mistral).
#include "model/arch/config_keys.h"
#include "model/arch/decoder.h"

namespace butterfly::model {

std::unique_ptr<Network> load_llama(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  const ConfigKeys keys(weights.file());
  const size_t experts = keys.optional_size("expert_count", 65536);
  auto decoder = std::make_unique<Decoder>(config, weights, range);
  decoder->ropes.emplace_back(config.rope);
  for (size_t layer = range.begin; layer < range.end; ++layer) {
    const BlockLoader from(*decoder, weights, layer);
    nn::TransformerBlock block;
    block.attention_norm = from.norm("attn_norm");
    block.attention = from.attention(kernels::RopeLayout::kInterleaved);
    block.mlp_norm = from.norm("ffn_norm");
    if (experts > 0) {
      block.mlp = from.moe(config.ff);
    } else {
      block.mlp = from.gated_mlp(nn::Activation::kSilu);
    }
    decoder->blocks.push_back(std::move(block));
  }
  return decoder;
}

}  // namespace butterfly::model
