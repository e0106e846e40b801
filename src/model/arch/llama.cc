// Llama-type networks: rotary positions in interleaved pairs, RMS norm, SwiGLU. With "llama.expert_count" the
// feed-forward parts are mixtures of experts (Mixtral). With a sliding window every layer has it (Mistral).
#include "model/arch/config_keys.h"
#include "model/arch/llama_like.h"

namespace butterfly::model {

std::unique_ptr<Network> load_llama(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  LlamaStyle style;
  if (ConfigKeys(weights.file()).optional_size("expert_count", 65536) > 0)
    style.feed_forward = [&](const BlockLoader& from, size_t) { return from.moe(config.ff); };
  return load_llama_like(config, weights, range, style);
}

}  // namespace butterfly::model
