// Q1_0: signs, and one f16 scale per 128. 1.125 bits per value. Bonsai's models.
#pragma once
#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// As it stands in a file, without padding.
struct BlockQ1_0 {
  uint16_t d;      // f16
  uint8_t qs[16];  // bit i mod 8 of byte i / 8: value i is d, or -d without it
};
static_assert(sizeof(BlockQ1_0) == 18);

void q1_0_dequantize(const std::byte* from, float* to, size_t count);
void q1_0_unpack(const std::byte* block, IntBlock* to);
void q1_0_quantize(const float* from, std::byte* to, size_t count);

}  // namespace butterfly::kernels
