// Q2_K: 16 groups of 16 two-bit integers; a 4-bit scale and a 4-bit minimum per group. 2.625 bits per value.
#pragma once
#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// As it stands in a file, without padding.
struct BlockQ2_K {
  uint8_t scales[16];  // group g: scale in the low half, minimum in the high half
  uint8_t qs[64];      // 128 values per 32 bytes: value 32 j + i is in bits 2j, 2j+1 of byte i
  uint16_t d;          // f16, of the scales
  uint16_t dmin;       // f16, of the minima
};
static_assert(sizeof(BlockQ2_K) == 84);

void q2_k_dequantize(const std::byte* from, float* to, size_t count);
void q2_k_quantize(const float* from, std::byte* to, size_t count);
void q2_k_unpack(const std::byte* block, IntBlock* to);

}  // namespace butterfly::kernels
