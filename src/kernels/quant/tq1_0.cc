#include "kernels/quant/tq1_0.h"

#include "kernels/quant/blocks.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {

void tq1_0_unpack(const std::byte* from, IntBlock* to) {
  const auto block = load_block<BlockTQ1_0>(from);
  to->d = f16_to_f32(block.d);
  to->dmin = 0;
  for (size_t g = 0; g < 8; ++g) {
    to->scale[g] = 1;
    to->min[g] = 0;
  }
  const auto put = [](const uint8_t* bytes, size_t count, size_t digits, int8_t* q) {
    for (size_t i = 0; i < count; ++i) {
      uint8_t fraction = bytes[i];  // of 256: three times it is the next digit, and what is left
      for (size_t n = 0; n < digits; ++n) {
        q[n * count + i] = static_cast<int8_t>((fraction * 3 >> 8) - 1);
        fraction = static_cast<uint8_t>(fraction * 3);
      }
    }
  };
  put(block.qs, 32, 5, to->q);
  put(block.qs + 32, 16, 5, to->q + 160);
  put(block.qh, 4, 4, to->q + 240);
}

void tq1_0_dequantize(const std::byte* from, float* to, size_t count) {
  dequantize_blocks<BlockTQ1_0, 256, 32, false, tq1_0_unpack>(from, to, count);
}

}  // namespace butterfly::kernels
