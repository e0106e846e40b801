// IQ2_S: points of eight values from a table of 1024, a bit for each sign, a four-bit scale per 16. 2.5625
// bits per value. Read only.
#pragma once
#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// As it stands in a file, without padding.
struct BlockIQ2_S {
  uint16_t d;         // f16
  uint8_t qs[32];     // per point: the lower eight bits of its index
  uint8_t signs[32];  // per point
  uint8_t qh[8];      // per 32 values: two upper bits for each of four points
  uint8_t scales[8];  // per 32 values: two of four bits
};
static_assert(sizeof(BlockIQ2_S) == 82);

void iq2_s_dequantize(const std::byte* from, float* to, size_t count);
void iq2_s_unpack(const std::byte* block, IntBlock* to);

}  // namespace butterfly::kernels
