#include "kernels/quant/iq2_xxs.h"

#include "kernels/quant/blocks.h"
#include "kernels/quant/iq_grids.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {

void iq2_xxs_unpack(const std::byte* from, IntBlock* to) {
  const auto block = load_block<BlockIQ2_XXS>(from);
  to->d = f16_to_f32(block.d) / 8;  // exact, and so is (2 scale + 1) / 8 for (scale + 1/2) / 4
  to->dmin = 0;
  for (size_t g = 0; g < 8; ++g) {
    uint32_t signs_and_scale;
    std::memcpy(&signs_and_scale, block.qs[g] + 4, sizeof signs_and_scale);
    to->scale[g] = static_cast<int16_t>(2 * (signs_and_scale >> 28) + 1);
    to->min[g] = 0;
    for (size_t p = 0; p < 4; ++p)
      put_signed(kIq2XxsGrid[block.qs[g][p]], even_signs(signs_and_scale >> 7 * p), to->q + 32 * g + 8 * p);
  }
}

void iq2_xxs_dequantize(const std::byte* from, float* to, size_t count) {
  dequantize_blocks<BlockIQ2_XXS, 256, 32, false, iq2_xxs_unpack>(from, to, count);
}

}  // namespace butterfly::kernels
