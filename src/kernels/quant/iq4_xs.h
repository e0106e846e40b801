// IQ4_XS: 8 groups of 32 indices into IQ4_NL's table; a signed 6-bit scale per group. 4.25 bits per value.
// Read only.
#pragma once
#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// As it stands in a file, without padding.
struct BlockIQ4_XS {
  uint16_t d;           // f16
  uint16_t scales_h;    // top two bits of scale + 32: group g in bits 2g, 2g+1
  uint8_t scales_l[4];  // low four bits: group g in half g % 2 of byte g / 2
  uint8_t
      qs[128];  // 32 values per 16 bytes: value i in the low half of byte i, value i + 16 in the high half
};
static_assert(sizeof(BlockIQ4_XS) == 136);

void iq4_xs_dequantize(const std::byte* from, float* to, size_t count);
void iq4_xs_unpack(const std::byte* block, IntBlock* to);

}  // namespace butterfly::kernels
