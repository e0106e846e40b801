// SmolLM3: as Llama, with every fourth layer without rotations.
#include "model/arch/llama_like.h"

namespace butterfly::model {

std::unique_ptr<Network> load_smollm3(const ModelConfig& config, WeightLoader& weights, LayerRange range) {
  auto decoder = load_llama_like(config, weights, range, {});
  for (size_t layer = range.begin; layer < range.end; ++layer)
    decoder->rope_of_block.push_back((layer + 1) % 4 == 0 ? Decoder::kNoRope : 0);
  return decoder;
}

}  // namespace butterfly::model
