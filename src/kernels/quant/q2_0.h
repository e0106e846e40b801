// Q2_0: values -1, 0, 1, 2 in two bits, one f16 scale per 64. 2.25 bits per value. Read only.
#pragma once
#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// As it stands in a file, without padding.
struct BlockQ2_0 {
  uint16_t d;      // f16
  uint8_t qs[16];  // bits 2 (i mod 4) of byte i / 4 are value i plus one
};
static_assert(sizeof(BlockQ2_0) == 18);

void q2_0_dequantize(const std::byte* from, float* to, size_t count);
void q2_0_unpack(const std::byte* block, IntBlock* to);

}  // namespace butterfly::kernels
