// Gemma 3, its text part: normalised heads; of six layers five see a window and rotate by a rope base of
// their own.
#include "model/arch/config_keys.h"
#include "model/arch/gemma.h"

namespace butterfly::model {

std::unique_ptr<Network> load_gemma3(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  const ConfigKeys keys(weights.file());
  auto decoder = load_gemma(config, weights, range);
  // Layers with a window were never stretched to longer contexts.
  kernels::RopeParams near = config.rope;
  near.base = keys.f32_or("rope.freq_base_swa", 10000.0f);
  near.scaling = kernels::RopeScaling::kNone;
  near.factor = 1;
  decoder->add_rope(config.rope, weights.file());
  decoder->add_window_rope(near, weights.file());
  decoder->logit_cap = keys.f32_or("final_logit_softcapping", 0.0f);
  return decoder;
}

}  // namespace butterfly::model
