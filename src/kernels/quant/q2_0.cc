#include "kernels/quant/q2_0.h"

#include "kernels/quant/blocks.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {

void q2_0_unpack(const std::byte* from, IntBlock* to) {
  const auto block = load_block<BlockQ2_0>(from);
  to->d = f16_to_f32(block.d);
  to->dmin = 0;
  for (size_t g = 0; g < 2; ++g) {
    to->scale[g] = 1;
    to->min[g] = 0;
  }
  for (size_t i = 0; i < 64; ++i) to->q[i] = static_cast<int8_t>((block.qs[i / 4] >> 2 * (i % 4) & 3) - 1);
}

void q2_0_dequantize(const std::byte* from, float* to, size_t count) {
  dequantize_blocks<BlockQ2_0, 64, 32, false, q2_0_unpack>(from, to, count);
}

}  // namespace butterfly::kernels
