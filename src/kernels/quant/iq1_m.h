// IQ1_M: points of eight values -1, 0, 1 from the table of IQ1_S, each moved up or down by an eighth, a
// three-bit scale per 16. 1.75 bits per value. Read only.
#pragma once
#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// As it stands in a file, without padding.
struct BlockIQ1_M {
  uint8_t qs[32];  // per point: the lower eight bits of its index
  uint8_t qh[16];  // per two points: three upper bits and one of direction for each
  uint16_t
      scales[4];  // per 64 values: four of three bits; the upper four bits of all are an f16, lowest first
};
static_assert(sizeof(BlockIQ1_M) == 56);

void iq1_m_dequantize(const std::byte* from, float* to, size_t count);
void iq1_m_unpack(const std::byte* block, IntBlock* to);

}  // namespace butterfly::kernels
