// Q5_K: 8 groups of 32 five-bit integers; a 6-bit scale and a 6-bit minimum per group. 5.5 bits per value.
#pragma once
#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// As it stands in a file, without padding.
struct BlockQ5_K {
  uint16_t d;          // f16, of the scales
  uint16_t dmin;       // f16, of the minima
  uint8_t scales[12];  // see six_bit_scales.h
  uint8_t qh[32];      // bit g of byte i is the top bit of value i of group g
  uint8_t qs[128];     // low four bits, as in Q4_K
};
static_assert(sizeof(BlockQ5_K) == 176);

void q5_k_dequantize(const std::byte* from, float* to, size_t count);
void q5_k_quantize(const float* from, std::byte* to, size_t count);
void q5_k_unpack(const std::byte* block, IntBlock* to);

}  // namespace butterfly::kernels
