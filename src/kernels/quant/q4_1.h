// Q4_1: 32 values as 4-bit integers from a minimum up, f16 scale and f16 minimum. 5 bits per value.
#pragma once
#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// As it stands in a file, without padding.
struct BlockQ4_1 {
  uint16_t d;      // f16
  uint16_t m;      // f16, value = d * q + m
  uint8_t qs[16];  // value i in the low half of byte i, value i + 16 in the high half
};
static_assert(sizeof(BlockQ4_1) == 20);

void q4_1_dequantize(const std::byte* from, float* to, size_t count);
void q4_1_quantize(const float* from, std::byte* to, size_t count);
void q4_1_unpack(const std::byte* block, IntBlock* to);

}  // namespace butterfly::kernels
