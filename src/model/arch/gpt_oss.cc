// gpt-oss: a window in every second layer, a sink in every head, biases everywhere, and experts whose gates
// are clamped. Matrices of experts are MXFP4 in published files.
#include "model/arch/config_keys.h"
#include "model/arch/llama_like.h"

namespace butterfly::model {

std::vector<LayerState> gpt_oss_states(const ModelFile& file, const ModelConfig& config) {
  return pattern_states(file, config, 0, 2);
}

std::unique_ptr<Network> load_gpt_oss(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  const ConfigKeys keys(weights.file());
  LlamaStyle style{.attention = {.layout = kernels::RopeLayout::kHalfSplit, .sinks = true},
                   .mlp_norm = "post_attention_norm"};
  style.feed_forward = [ff = keys.size("expert_feed_forward_length", kSizeMax)](const BlockLoader& from,
                                                                                size_t) {
    nn::Moe moe = from.moe(ff);
    moe.route.by = graph::RouteBy::kSoftmaxOfChosen;
    moe.route.normalise = false;
    moe.activation = nn::Activation::kClampedSilu;
    return moe;
  };
  auto decoder = load_llama_like(config, weights, range, style);
  kernels::RopeParams near = config.rope;
  near.base = keys.f32_or("rope.freq_base_swa", static_cast<float>(config.rope.base));
  decoder->add_window_rope(near, weights.file());
  return decoder;
}

}  // namespace butterfly::model
