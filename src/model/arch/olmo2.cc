// OLMo 2 and 3: as Llama, with norms only behind the parts, queries and keys normalised by whole rows, and in
// OLMo 3 three of four layers with a window, whose ropes are not stretched.
#include "model/arch/llama_like.h"

namespace butterfly::model {

std::vector<LayerState> olmo2_states(const ModelFile& file, const ModelConfig& config) {
  return pattern_states(file, config, 0, 4);
}

std::unique_ptr<Network> load_olmo2(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  auto decoder = load_llama_like(
      config, weights, range,
      {.attention = {.layout = kernels::RopeLayout::kHalfSplit, .norms = AttentionNorms::kRows},
       .attention_norm = nullptr,
       .attention_post_norm = "post_attention_norm",
       .mlp_norm = nullptr,
       .mlp_post_norm = "post_ffw_norm"});
  kernels::RopeParams near = config.rope;
  near.scaling = kernels::RopeScaling::kNone;
  near.factor = near.attn_factor = 1;
  decoder->add_window_rope(near, weights.file());
  return decoder;
}

}  // namespace butterfly::model
