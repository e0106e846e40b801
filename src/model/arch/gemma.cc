#include "model/arch/gemma.h"

#include <cmath>

namespace butterfly::model {

std::vector<LayerState> gemma2_states(const ModelFile& file, const ModelConfig& config) {
  return pattern_states(file, config, 4096, 2);
}

std::vector<LayerState> gemma3_states(const ModelFile& file, const ModelConfig& config) {
  return pattern_states(file, config, 0, 6);
}

std::unique_ptr<Decoder> load_gemma(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  auto decoder = std::make_unique<Decoder>(config, weights, range);
  decoder->embedding_scale = std::sqrt(static_cast<float>(config.dim));
  // The 27B models (46 layers in Gemma 2, 62 in Gemma 3) scale by the columns per head; files do not say so.
  const bool by_columns = config.layers == (config.architecture == "gemma2" ? 46 : 62);
  const auto scaled_by = static_cast<float>(by_columns ? config.dim / config.heads : config.head_dim);
  const AttentionStyle style{
      .layout = kernels::RopeLayout::kHalfSplit,
      .norms = config.architecture == "gemma2" ? AttentionNorms::kNone : AttentionNorms::kHeads,
      .scale = 1.0f / std::sqrt(scaled_by)};
  for (size_t layer = range.begin; layer < range.end; ++layer) {
    const BlockLoader from(*decoder, weights, layer);
    nn::TransformerBlock block;
    block.attention_norm = from.norm("attn_norm");
    block.attention = from.attention(style);
    block.attention_post_norm = from.norm("post_attention_norm");
    block.mlp_norm = from.norm("ffn_norm");
    block.mlp = from.gated_mlp(nn::Activation::kGelu);
    block.mlp_post_norm = from.norm("post_ffw_norm");
    decoder->blocks.push_back(std::move(block));
  }
  return decoder;
}

}  // namespace butterfly::model
