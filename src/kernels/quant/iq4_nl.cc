#include "kernels/quant/iq4_nl.h"

#include "kernels/quant/blocks.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {

void iq4_nl_unpack(const std::byte* from, IntBlock* to) {
  const auto block = load_block<BlockIQ4_NL>(from);
  to->d = f16_to_f32(block.d);
  to->dmin = 0;
  to->scale[0] = 1;
  to->min[0] = 0;
  for (size_t i = 0; i < 16; ++i) {
    to->q[i] = kIq4Points[block.qs[i] & 15];
    to->q[i + 16] = kIq4Points[block.qs[i] >> 4];
  }
}

void iq4_nl_dequantize(const std::byte* from, float* to, size_t count) {
  dequantize_blocks<BlockIQ4_NL, 32, 32, false, iq4_nl_unpack>(from, to, count);
}

}  // namespace butterfly::kernels
