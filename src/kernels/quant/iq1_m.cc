#include "kernels/quant/iq1_m.h"

#include "kernels/quant/blocks.h"
#include "kernels/quant/iq_grids.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {

void iq1_m_unpack(const std::byte* from, IntBlock* to) {
  const auto block = load_block<BlockIQ1_M>(from);
  uint16_t d = 0;
  for (size_t i = 0; i < 4; ++i) d = static_cast<uint16_t>(d | (block.scales[i] >> 12) << 4 * i);
  to->d = f16_to_f32(d) / 8;  // eighths are the integers
  to->dmin = 0;
  for (size_t g = 0; g < 16; ++g) {
    to->scale[g] = static_cast<int16_t>(2 * (block.scales[g / 4] >> 3 * (g % 4) & 7) + 1);
    to->min[g] = 0;
  }
  for (size_t p = 0; p < 32; ++p) {
    const unsigned upper = block.qh[p / 2] >> 4 * (p % 2) & 15u;
    put_eighths(kIq1Grid[block.qs[p] | (upper & 7) << 8], (upper & 8) != 0 ? -1 : 1, to->q + 8 * p);
  }
}

void iq1_m_dequantize(const std::byte* from, float* to, size_t count) {
  dequantize_blocks<BlockIQ1_M, 256, 16, false, iq1_m_unpack>(from, to, count);
}

}  // namespace butterfly::kernels
