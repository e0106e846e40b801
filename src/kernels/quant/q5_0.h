// Q5_0: 32 values as 5-bit integers around zero with one f16 scale. 5.5 bits per value.
#pragma once
#include "kernels/quant/quant.h"

namespace butterfly::kernels {

// As it stands in a file, without padding.
struct BlockQ5_0 {
  uint16_t d;     // f16
  uint8_t qh[4];  // bit i of this little-endian word is the top bit of value i
  uint8_t
      qs[16];  // low four bits of q + 16: value i in the low half of byte i, value i + 16 in the high half
};
static_assert(sizeof(BlockQ5_0) == 22);

void q5_0_dequantize(const std::byte* from, float* to, size_t count);
void q5_0_quantize(const float* from, std::byte* to, size_t count);
void q5_0_unpack(const std::byte* block, IntBlock* to);

}  // namespace butterfly::kernels
