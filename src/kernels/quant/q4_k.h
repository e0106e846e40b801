// Q4_K: 8 groups of 32 four-bit integers; a 6-bit scale and a 6-bit minimum per group. 4.5 bits per value.
#pragma once
#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// As it stands in a file, without padding.
struct BlockQ4_K {
  uint16_t d;          // f16, of the scales
  uint16_t dmin;       // f16, of the minima
  uint8_t scales[12];  // see six_bit_scales.h
  uint8_t
      qs[128];  // 64 values per 32 bytes: value i in the low half of byte i, value i + 32 in the high half
};
static_assert(sizeof(BlockQ4_K) == 144);

void q4_k_dequantize(const std::byte* from, float* to, size_t count);
void q4_k_quantize(const float* from, std::byte* to, size_t count);
void q4_k_unpack(const std::byte* block, IntBlock* to);

}  // namespace butterfly::kernels
