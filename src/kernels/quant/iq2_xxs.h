// IQ2_XXS: points of eight values from a table of 256, signs in seven bits, one four-bit scale per 32. 2.0625
// bits per value. Read only.
#pragma once
#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// As it stands in a file, without padding.
struct BlockIQ2_XXS {
  uint16_t d;        // f16
  uint8_t qs[8][8];  // per 32 values: four indices; then 28 bits of signs and 4 of scale, lowest first
};
static_assert(sizeof(BlockIQ2_XXS) == 66);

void iq2_xxs_dequantize(const std::byte* from, float* to, size_t count);
void iq2_xxs_unpack(const std::byte* block, IntBlock* to);

}  // namespace butterfly::kernels
