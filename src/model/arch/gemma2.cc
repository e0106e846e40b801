// Gemma 2: soft caps on scores and logits; every second layer sees a window.
#include "model/arch/config_keys.h"
#include "model/arch/gemma.h"

namespace butterfly::model {

std::unique_ptr<Network> load_gemma2(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  const ConfigKeys keys(weights.file());
  auto decoder = load_gemma(config, weights, range);
  decoder->add_rope(config.rope, weights.file());
  const float score_cap = keys.f32_or("attn_logit_softcapping", 50.0f);
  for (nn::TransformerBlock& block : decoder->blocks) block.attention.shape.params.soft_cap = score_cap;
  decoder->logit_cap = keys.f32_or("final_logit_softcapping", 30.0f);
  return decoder;
}

}  // namespace butterfly::model
