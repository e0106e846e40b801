// Mamba-2 layers as files describe them: the "ssm." keys.
#pragma once
#include "model/arch/model_config.h"
#include "nn/selective_mixer.h"

namespace butterfly::model {

struct Mamba2Config {
  graph::SelectiveStateShape shape;
  size_t taps;
};
// Throws Error naming file, key, expected and found.
Mamba2Config read_mamba2(const ModelFile& file);
// What such a layer keeps.
LayerState mamba2_state(const graph::SelectiveStateShape& shape, size_t taps);

}  // namespace butterfly::model
