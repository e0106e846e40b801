#include "kernels/quant/q4_1.h"

#include "kernels/quant/blocks.h"
#include "kernels/quant/fit_block.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {
namespace {

void fit(const float* from, IntBlock* to) { fit_affine_block(from, 15, to); }

BlockQ4_1 pack(const IntBlock& from) {
  BlockQ4_1 block{.d = f32_to_f16(from.d), .m = f32_to_f16(-from.dmin), .qs = {}};
  for (size_t i = 0; i < 16; ++i) block.qs[i] = static_cast<uint8_t>(from.q[i] | from.q[i + 16] << 4);
  return block;
}

}  // namespace

void q4_1_unpack(const std::byte* from, IntBlock* to) {
  const auto block = load_block<BlockQ4_1>(from);
  to->d = f16_to_f32(block.d);
  to->dmin = -f16_to_f32(block.m);
  to->scale[0] = 1;
  to->min[0] = 1;
  for (size_t i = 0; i < 16; ++i) {
    to->q[i] = static_cast<int8_t>(block.qs[i] & 15);
    to->q[i + 16] = static_cast<int8_t>(block.qs[i] >> 4);
  }
}

void q4_1_dequantize(const std::byte* from, float* to, size_t count) {
  dequantize_blocks<BlockQ4_1, 32, 32, true, q4_1_unpack>(from, to, count);
}

void q4_1_quantize(const float* from, std::byte* to, size_t count) {
  quantize_blocks<BlockQ4_1, 32, fit, pack>(from, to, count);
}

}  // namespace butterfly::kernels
