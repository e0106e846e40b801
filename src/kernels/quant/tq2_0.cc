#include "kernels/quant/tq2_0.h"

#include "kernels/quant/blocks.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {

void tq2_0_unpack(const std::byte* from, IntBlock* to) {
  const auto block = load_block<BlockTQ2_0>(from);
  to->d = f16_to_f32(block.d);
  to->dmin = 0;
  for (size_t g = 0; g < 8; ++g) {
    to->scale[g] = 1;
    to->min[g] = 0;
    for (size_t i = 0; i < 32; ++i)
      to->q[32 * g + i] = static_cast<int8_t>((block.qs[g / 4 * 32 + i] >> 2 * (g % 4) & 3) - 1);
  }
}

void tq2_0_dequantize(const std::byte* from, float* to, size_t count) {
  dequantize_blocks<BlockTQ2_0, 256, 32, false, tq2_0_unpack>(from, to, count);
}

}  // namespace butterfly::kernels
