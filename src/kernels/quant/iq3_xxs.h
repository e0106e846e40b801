// IQ3_XXS: points of four values from a table of 256, signs of eight in seven bits, one four-bit scale
// per 32. 3.0625 bits per value. Read only.
#pragma once
#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// As it stands in a file, without padding.
struct BlockIQ3_XXS {
  uint16_t d;           // f16
  uint8_t qs[64];       // per point: its index
  uint8_t signs[8][4];  // per 32 values: 28 bits of signs and 4 of scale, lowest first
};
static_assert(sizeof(BlockIQ3_XXS) == 98);

void iq3_xxs_dequantize(const std::byte* from, float* to, size_t count);
void iq3_xxs_unpack(const std::byte* block, IntBlock* to);

}  // namespace butterfly::kernels
