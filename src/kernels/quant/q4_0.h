// Q4_0: 32 values as 4-bit integers around zero with one f16 scale. 4.5 bits per value.
#pragma once
#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// As it stands in a file, without padding.
struct BlockQ4_0 {
  uint16_t d;      // f16
  uint8_t qs[16];  // q + 8: value i in the low half of byte i, value i + 16 in the high half
};
static_assert(sizeof(BlockQ4_0) == 18);

void q4_0_dequantize(const std::byte* from, float* to, size_t count);
void q4_0_quantize(const float* from, std::byte* to, size_t count);
void q4_0_unpack(const std::byte* block, IntBlock* to);

}  // namespace butterfly::kernels
