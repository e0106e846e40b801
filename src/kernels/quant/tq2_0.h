// TQ2_0: values -1, 0, 1 in two bits, one f16 scale per 256. 2.0625 bits per value. Read only.
#pragma once
#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// As it stands in a file, without padding.
struct BlockTQ2_0 {
  uint8_t qs[64];  // bits 2 n of byte i of each half are value 32 n + i of it, plus one
  uint16_t d;      // f16
};
static_assert(sizeof(BlockTQ2_0) == 66);

void tq2_0_dequantize(const std::byte* from, float* to, size_t count);
void tq2_0_unpack(const std::byte* block, IntBlock* to);

}  // namespace butterfly::kernels
