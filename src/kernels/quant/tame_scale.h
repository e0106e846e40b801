// Blocks of arbitrary bytes as weights, for tests and digests of types that nobody here can write.
#pragma once
#include <cstddef>

#include "tensor/dtype.h"

namespace butterfly::kernels {

// Makes the f16 scale of a block something near 0.01, positive; the other bytes stay.
inline void tame_scale(DType dtype, std::byte* block) {
  constexpr std::byte kUpper{0x20};
  switch (dtype) {
    case DType::kTQ1_0:
      block[53] = kUpper;
      break;
    case DType::kTQ2_0:
      block[65] = kUpper;
      break;
    case DType::kIQ1_M:  // the upper halves of two scale words
      block[53] &= std::byte{0x0f};
      block[55] = (block[55] & std::byte{0x0f}) | kUpper;
      break;
    default:
      block[1] = kUpper;
  }
}

}  // namespace butterfly::kernels
