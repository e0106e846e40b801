// IQ3_S: points of four values from a table of 512, a bit for each sign, one four-bit scale per 32. 3.4375
// bits per value. Read only.
#pragma once
#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// As it stands in a file, without padding.
struct BlockIQ3_S {
  uint16_t d;         // f16
  uint8_t qs[64];     // per point: the lower eight bits of its index
  uint8_t qh[8];      // per 32 values: the ninth bits of eight points
  uint8_t signs[32];  // per 8 values
  uint8_t scales[4];  // per 64 values: two of four bits
};
static_assert(sizeof(BlockIQ3_S) == 110);

void iq3_s_dequantize(const std::byte* from, float* to, size_t count);
void iq3_s_unpack(const std::byte* block, IntBlock* to);

}  // namespace butterfly::kernels
