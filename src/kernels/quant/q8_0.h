// Q8_0: 32 values as 8-bit integers with one f16 scale. 8.5 bits per value.
#pragma once
#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// As it stands in a file, without padding.
struct BlockQ8_0 {
  uint16_t d;     // f16
  int8_t qs[32];  // in order
};
static_assert(sizeof(BlockQ8_0) == 34);

void q8_0_dequantize(const std::byte* from, float* to, size_t count);
// Writes q in [-127, 127].
void q8_0_quantize(const float* from, std::byte* to, size_t count);
void q8_0_unpack(const std::byte* block, IntBlock* to);

}  // namespace butterfly::kernels
