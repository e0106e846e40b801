#include "kernels/quant/iq2_s.h"

#include "kernels/quant/blocks.h"
#include "kernels/quant/iq_grids.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {

void iq2_s_unpack(const std::byte* from, IntBlock* to) {
  const auto block = load_block<BlockIQ2_S>(from);
  to->d = f16_to_f32(block.d) / 8;  // exact, and so is (2 scale + 1) / 8 for (scale + 1/2) / 4
  to->dmin = 0;
  for (size_t g = 0; g < 16; ++g) {
    to->scale[g] = static_cast<int16_t>(2 * (block.scales[g / 2] >> 4 * (g % 2) & 15) + 1);
    to->min[g] = 0;
  }
  for (size_t p = 0; p < 32; ++p) {
    const size_t upper = block.qh[p / 4] >> 2 * (p % 4) & 3;
    put_signed(kIq2SGrid[block.qs[p] | upper << 8], block.signs[p], to->q + 8 * p);
  }
}

void iq2_s_dequantize(const std::byte* from, float* to, size_t count) {
  dequantize_blocks<BlockIQ2_S, 256, 16, false, iq2_s_unpack>(from, to, count);
}

}  // namespace butterfly::kernels
