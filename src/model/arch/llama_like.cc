#include "model/arch/llama_like.h"

#include "model/arch/config_keys.h"

namespace butterfly::model {

std::unique_ptr<Decoder> load_llama_like(const ModelConfig& config, WeightLoader& weights, LayerRange range,
                                         const LlamaStyle& style) {
  auto decoder = std::make_unique<Decoder>(config, weights, range, nn::NormKind::kRms, style.output_norm);
  decoder->add_rope(config.rope, weights.file());
  for (size_t layer = range.begin; layer < range.end; ++layer) {
    const BlockLoader from(*decoder, weights, layer);
    const auto norm = [&](const char* name) { return name == nullptr ? nn::Norm{} : from.norm(name); };
    nn::TransformerBlock block;
    block.attention_norm = norm(style.attention_norm);
    if (config.states[layer].kind == StateKind::kRecurrent) {
      style.recurrent(from, block);
    } else if (style.attention_of) {
      style.attention_of(from, block);
    } else {
      block.attention = from.attention(style.attention);
    }
    block.attention_post_norm = norm(style.attention_post_norm);
    block.mlp_norm = norm(style.mlp_norm);
    block.mlp = style.feed_forward ? style.feed_forward(from, layer)
                                   : FeedForward(from.gated_mlp(nn::Activation::kSilu));
    block.mlp_post_norm = norm(style.mlp_post_norm);
    block.residual_scale = style.residual_scale;
    decoder->blocks.push_back(std::move(block));
  }
  return decoder;
}

size_t expert_columns(const ModelFile& file, const ModelConfig& config) {
  const ConfigKeys keys(file);
  return keys.size_or("expert_feed_forward_length", config.ff / keys.size("expert_used_count", 65536),
                      kSizeMax);
}

}  // namespace butterfly::model
