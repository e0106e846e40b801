// IQ2_XS: points of eight values from a table of 512 with signs in seven bits, a four-bit scale
// per 16. 2.3125 bits per value. Read only.
#pragma once
#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// As it stands in a file, without padding.
struct BlockIQ2_XS {
  uint16_t d;         // f16
  uint16_t qs[32];    // per point: nine bits of index, seven of signs
  uint8_t scales[8];  // per 32 values: two of four bits
};
static_assert(sizeof(BlockIQ2_XS) == 74);

void iq2_xs_dequantize(const std::byte* from, float* to, size_t count);
void iq2_xs_unpack(const std::byte* block, IntBlock* to);

}  // namespace butterfly::kernels
