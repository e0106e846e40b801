// What Gemma 2 and 3 share: scaled embeddings, norms before and behind each part, GeGLU, and layers that see
// a window among layers that see everything.
#pragma once
#include "model/arch/decoder.h"

namespace butterfly::model {

// A decoder without ropes and caps.
std::unique_ptr<Decoder> load_gemma(const ModelConfig& config, WeightLoader& weights, LayerRange range);

}  // namespace butterfly::model
