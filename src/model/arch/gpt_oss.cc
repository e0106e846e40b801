// gpt-oss: a window in every second layer, a sink in every head, biases everywhere, and experts whose gates
// are clamped. Matrices of experts are MXFP4 in published files.
#include "model/arch/config_keys.h"
#include "model/arch/decoder.h"

namespace butterfly::model {

std::vector<LayerState> gpt_oss_states(const ModelFile& file, const ModelConfig& config) {
  return pattern_states(file, config, 0, 2);
}

std::unique_ptr<Network> load_gpt_oss(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  const ConfigKeys keys(weights.file());
  const size_t ff = keys.size("expert_feed_forward_length", kSizeMax);
  auto decoder = std::make_unique<Decoder>(config, weights, range);
  kernels::RopeParams near = config.rope;
  near.base = keys.f32_or("rope.freq_base_swa", config.rope.base);
  decoder->ropes.emplace_back(config.rope);
  decoder->ropes.emplace_back(near);
  for (size_t layer = range.begin; layer < range.end; ++layer) {
    const BlockLoader from(*decoder, weights, layer);
    nn::TransformerBlock block;
    block.attention_norm = from.norm("attn_norm");
    block.attention = from.attention(kernels::RopeLayout::kHalfSplit);
    block.mlp_norm = from.norm("post_attention_norm");
    nn::Moe moe = from.moe(ff);
    moe.route.by = graph::RouteBy::kSoftmaxOfChosen;
    moe.route.normalise = false;
    moe.activation = nn::Activation::kClampedSilu;
    block.mlp = std::move(moe);
    decoder->blocks.push_back(std::move(block));
    decoder->rope_of_block.push_back(config.states[layer].kind == StateKind::kWindow ? 1 : 0);
  }
  return decoder;
}

}  // namespace butterfly::model
