// The fixed shape of every float reduction: 32 logical lanes and one tree, whatever the vector width.
#pragma once
#include <cstddef>

namespace butterfly::kernels {

inline constexpr size_t kLogicalLanes = 32;

// ((0+16)+(8+24)) + ... : halves are added until one value is left. Overwrites `lanes`.
inline float reduce_lanes(float* lanes) {
  for (size_t width = kLogicalLanes / 2; width >= 1; width /= 2)
    for (size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  return lanes[0];
}

}  // namespace butterfly::kernels
