// IQ1_S: points of eight values -1, 0, 1 from a table of 2048, moved up or down by an eighth, one three-bit
// scale per 32. 1.5625 bits per value. Read only.
#pragma once
#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// As it stands in a file, without padding.
struct BlockIQ1_S {
  uint16_t d;      // f16
  uint8_t qs[32];  // per point: the lower eight bits of its index
  uint16_t
      qh[8];  // per 32 values: three upper bits for each of four points, three of scale, one of direction
};
static_assert(sizeof(BlockIQ1_S) == 50);

void iq1_s_dequantize(const std::byte* from, float* to, size_t count);
void iq1_s_unpack(const std::byte* block, IntBlock* to);

}  // namespace butterfly::kernels
