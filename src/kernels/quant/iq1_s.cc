#include "kernels/quant/iq1_s.h"

#include "kernels/quant/blocks.h"
#include "kernels/quant/iq_grids.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {

void iq1_s_unpack(const std::byte* from, IntBlock* to) {
  const auto block = load_block<BlockIQ1_S>(from);
  to->d = f16_to_f32(block.d) / 8;  // eighths are the integers
  to->dmin = 0;
  for (size_t g = 0; g < 8; ++g) {
    to->scale[g] = static_cast<int16_t>(2 * (block.qh[g] >> 12 & 7) + 1);
    to->min[g] = 0;
    const int delta = (block.qh[g] & 0x8000) != 0 ? -1 : 1;
    for (size_t p = 0; p < 4; ++p) {
      const size_t index = block.qs[4 * g + p] | (block.qh[g] >> 3 * p & 7u) << 8;
      put_eighths(kIq1Grid[index], delta, to->q + 32 * g + 8 * p);
    }
  }
}

void iq1_s_dequantize(const std::byte* from, float* to, size_t count) {
  dequantize_blocks<BlockIQ1_S, 256, 32, false, iq1_s_unpack>(from, to, count);
}

}  // namespace butterfly::kernels
