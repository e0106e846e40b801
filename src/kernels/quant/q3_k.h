// Q3_K: 16 groups of 16 three-bit integers around zero; a signed 6-bit scale per group. 3.4375 bits per
// value.
#pragma once
#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// As it stands in a file, without padding.
struct BlockQ3_K {
  uint8_t hmask[32];  // bit j of byte i is the top bit of value 32 j + i
  uint8_t
      qs[64];  // low two bits of q + 4; 128 values per 32 bytes: value 32 j + i is in bits 2j, 2j+1 of byte i
  uint8_t scales[12];  // scale + 32: low four bits of group g in half g / 8 of byte g % 8; its top two bits
                       // in bits 2 (g / 4) and up of byte 8 + g % 4
  uint16_t d;          // f16
};
static_assert(sizeof(BlockQ3_K) == 110);

void q3_k_dequantize(const std::byte* from, float* to, size_t count);
void q3_k_quantize(const float* from, std::byte* to, size_t count);
void q3_k_unpack(const std::byte* block, IntBlock* to);

}  // namespace butterfly::kernels
