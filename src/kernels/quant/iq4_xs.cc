#include "kernels/quant/iq4_xs.h"

#include "kernels/quant/blocks.h"
#include "kernels/quant/iq4_nl.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {

void iq4_xs_unpack(const std::byte* from, IntBlock* to) {
  const auto block = load_block<BlockIQ4_XS>(from);
  to->d = f16_to_f32(block.d);
  to->dmin = 0;
  for (size_t g = 0; g < 8; ++g) {
    const int low = block.scales_l[g / 2] >> 4 * (g % 2) & 15;
    const int high = block.scales_h >> 2 * g & 3;
    to->scale[g] = static_cast<int16_t>((low | high << 4) - 32);
    to->min[g] = 0;
    const uint8_t* qs = block.qs + 16 * g;
    int8_t* q = to->q + 32 * g;
    for (size_t i = 0; i < 16; ++i) {
      q[i] = kIq4Points[qs[i] & 15];
      q[i + 16] = kIq4Points[qs[i] >> 4];
    }
  }
}

void iq4_xs_dequantize(const std::byte* from, float* to, size_t count) {
  dequantize_blocks<BlockIQ4_XS, 256, 32, false, iq4_xs_unpack>(from, to, count);
}

}  // namespace butterfly::kernels
