#include "kernels/quant/iq3_xxs.h"

#include "kernels/quant/blocks.h"
#include "kernels/quant/iq_grids.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {

void iq3_xxs_unpack(const std::byte* from, IntBlock* to) {
  const auto block = load_block<BlockIQ3_XXS>(from);
  to->d = f16_to_f32(block.d) / 4;  // exact, and so is (2 scale + 1) / 4 for (scale + 1/2) / 2
  to->dmin = 0;
  for (size_t g = 0; g < 8; ++g) {
    uint32_t signs_and_scale;
    std::memcpy(&signs_and_scale, block.signs[g], sizeof signs_and_scale);
    to->scale[g] = static_cast<int16_t>(2 * (signs_and_scale >> 28) + 1);
    to->min[g] = 0;
    for (size_t p = 0; p < 8; ++p) {
      const unsigned signs = even_signs(signs_and_scale >> 7 * (p / 2)) >> 4 * (p % 2);
      put_signed(kIq3XxsGrid[block.qs[8 * g + p]], signs, to->q + 32 * g + 4 * p);
    }
  }
}

void iq3_xxs_dequantize(const std::byte* from, float* to, size_t count) {
  dequantize_blocks<BlockIQ3_XXS, 256, 32, false, iq3_xxs_unpack>(from, to, count);
}

}  // namespace butterfly::kernels
