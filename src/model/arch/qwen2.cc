// Qwen 2 and 2.5: as Llama, with biases on queries, keys and values and pairs from the two halves of a head.
#include "model/arch/llama_like.h"

namespace butterfly::model {

std::unique_ptr<Network> load_qwen2(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  return load_llama_like(config, weights, range, {.attention = {.layout = kernels::RopeLayout::kHalfSplit}});
}

}  // namespace butterfly::model
