// Q6_K: 16 groups of 16 six-bit integers around zero; a signed 8-bit scale per group. 6.5625 bits per value.
#pragma once
#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// As it stands in a file, without padding.
struct BlockQ6_K {
  uint8_t ql[128];    // low four bits of q + 32; 128 values per 64 bytes: value i in the low half of byte i,
                      // value i + 64 in the high half
  uint8_t qh[64];     // top two bits; 128 values per 32 bytes: value 32 j + i is in bits 2j, 2j+1 of byte i
  int8_t scales[16];  // in order
  uint16_t d;         // f16
};
static_assert(sizeof(BlockQ6_K) == 210);

void q6_k_dequantize(const std::byte* from, float* to, size_t count);
void q6_k_quantize(const float* from, std::byte* to, size_t count);
void q6_k_unpack(const std::byte* block, IntBlock* to);

}  // namespace butterfly::kernels
