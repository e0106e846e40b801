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
  decoder->ropes.emplace_back(config.rope);
  decoder->ropes.emplace_back(near);
  for (size_t layer = range.begin; layer < range.end; ++layer) {
    const BlockLoader from(*decoder, weights, layer);
    nn::Attention& attention = decoder->blocks[layer - range.begin].attention;
    attention.q_norm = from.head_norm("attn_q_norm");
    attention.k_norm = from.head_norm("attn_k_norm");
    decoder->rope_of_block.push_back(config.states[layer].kind == StateKind::kWindow ? 1 : 0);
  }
  decoder->logit_cap = keys.f32_or("final_logit_softcapping", 0.0f);
  return decoder;
}

}  // namespace butterfly::model
