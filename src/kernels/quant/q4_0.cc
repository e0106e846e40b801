#include "kernels/quant/q4_0.h"

#include "kernels/quant/blocks.h"
#include "kernels/quant/fit_block.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {
namespace {

void fit(const float* from, IntBlock* to) { fit_symmetric_block(from, -8, to); }

BlockQ4_0 pack(const IntBlock& from) {
  BlockQ4_0 block{.d = f32_to_f16(from.d), .qs = {}};
  for (size_t i = 0; i < 16; ++i)
    block.qs[i] = static_cast<uint8_t>((from.q[i] + 8) | (from.q[i + 16] + 8) << 4);
  return block;
}

}  // namespace

void q4_0_unpack(const std::byte* from, IntBlock* to) {
  const auto block = load_block<BlockQ4_0>(from);
  to->d = f16_to_f32(block.d);
  to->dmin = 0;
  to->scale[0] = 1;
  to->min[0] = 0;
  for (size_t i = 0; i < 16; ++i) {
    to->q[i] = static_cast<int8_t>((block.qs[i] & 15) - 8);
    to->q[i + 16] = static_cast<int8_t>((block.qs[i] >> 4) - 8);
  }
}

void q4_0_dequantize(const std::byte* from, float* to, size_t count) {
  dequantize_blocks<BlockQ4_0, 32, 32, false, q4_0_unpack>(from, to, count);
}

void q4_0_quantize(const float* from, std::byte* to, size_t count) {
  quantize_blocks<BlockQ4_0, 32, fit, pack>(from, to, count);
}

}  // namespace butterfly::kernels
