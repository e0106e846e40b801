#include "kernels/quant/iq3_s.h"

#include "kernels/quant/blocks.h"
#include "kernels/quant/iq_grids.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {

void iq3_s_unpack(const std::byte* from, IntBlock* to) {
  const auto block = load_block<BlockIQ3_S>(from);
  to->d = f16_to_f32(block.d);
  to->dmin = 0;
  for (size_t g = 0; g < 8; ++g) {
    to->scale[g] = static_cast<int16_t>(2 * (block.scales[g / 2] >> 4 * (g % 2) & 15) + 1);
    to->min[g] = 0;
    for (size_t p = 0; p < 8; ++p) {
      const size_t index = block.qs[8 * g + p] | (block.qh[g] >> p & 1u) << 8;
      const unsigned signs = block.signs[4 * g + p / 2] >> 4 * (p % 2);
      put_signed(kIq3SGrid[index], signs, to->q + 32 * g + 4 * p);
    }
  }
}

void iq3_s_dequantize(const std::byte* from, float* to, size_t count) {
  dequantize_blocks<BlockIQ3_S, 256, 32, false, iq3_s_unpack>(from, to, count);
}

}  // namespace butterfly::kernels
