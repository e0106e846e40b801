// Images that look a little different every time they are seen.
#pragma once
#include <cstdint>
#include <span>

#include "train/data/image.h"

namespace butterfly::train {

// Draws are a function of (seed, batch, row): the same in every thread, on every machine and after a restart.
struct Augment {
  bool flip = false;  // half of them are seen in a mirror
  uint64_t crop = 0;  // moved by up to so many pixels each way; what comes in repeats the edge
  uint64_t seed = 0;

  // `values`: [channels, height, width], normalised or not.
  void apply(uint64_t batch, size_t row, const ImageShape& shape, std::span<float> values) const;
};

}  // namespace butterfly::train
