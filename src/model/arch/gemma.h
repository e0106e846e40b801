// What Gemma 2 and 3 share: scaled embeddings, norms before and behind each part, GeGLU, and layers that see
// a window among layers that see everything.
#pragma once
#include "model/arch/decoder.h"

namespace butterfly::model {

// Which layers see only a window.
struct LocalLayers {
  size_t window = 0;           // positions; 0: no layer has one
  std::vector<bool> is_local;  // by layer
};
// From "attention.sliding_window" and its pattern: every `period`-th layer sees everything, unless the file
// lists the layers.
LocalLayers read_local_layers(const ModelFile& file, size_t layers, size_t window, size_t period);

// A decoder without ropes and caps, whose blocks attend by `query_scale`. Head norms are read where the file
// has them.
std::unique_ptr<Decoder> load_gemma(const ModelConfig& config, WeightLoader& weights, LayerRange range,
                                    const LocalLayers& local);

}  // namespace butterfly::model
