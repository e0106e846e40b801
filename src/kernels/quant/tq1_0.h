// TQ1_0: values -1, 0, 1, five in a byte as digits of a fraction to base three, one f16 scale per 256. 1.6875
// bits per value. Read only.
#pragma once
#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// As it stands in a file, without padding.
struct BlockTQ1_0 {
  uint8_t qs[48];  // digit n of byte i is value 32 n + i of the first 160; then 16 n + i of the next 80
  uint8_t qh[4];   // digit n of byte i is value 4 n + i of the last 16
  uint16_t d;      // f16
};
static_assert(sizeof(BlockTQ1_0) == 54);

void tq1_0_dequantize(const std::byte* from, float* to, size_t count);
void tq1_0_unpack(const std::byte* block, IntBlock* to);

}  // namespace butterfly::kernels
