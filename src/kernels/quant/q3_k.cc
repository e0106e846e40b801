#include "kernels/quant/q3_k.h"

#include "kernels/quant/blocks.h"
#include "kernels/quant/fit_block.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {
namespace {

void fit(const float* from, IntBlock* to) { fit_symmetric_super_block(from, -4, -32, to); }

BlockQ3_K pack(const IntBlock& from) {
  BlockQ3_K block{.hmask = {}, .qs = {}, .scales = {}, .d = f32_to_f16(from.d)};
  for (size_t g = 0; g < 16; ++g) {
    const int scale = from.scale[g] + 32;
    block.scales[g % 8] |= static_cast<uint8_t>((scale & 15) << 4 * (g / 8));
    block.scales[8 + g % 4] |= static_cast<uint8_t>((scale >> 4) << 2 * (g / 4));
  }
  for (size_t j = 0; j < 8; ++j) {
    for (size_t i = 0; i < 32; ++i) {
      const int q = from.q[32 * j + i] + 4;
      block.hmask[i] |= static_cast<uint8_t>((q >> 2) << j);
      block.qs[32 * (j / 4) + i] |= static_cast<uint8_t>((q & 3) << 2 * (j % 4));
    }
  }
  return block;
}

}  // namespace

void q3_k_unpack(const std::byte* from, IntBlock* to) {
  const auto block = load_block<BlockQ3_K>(from);
  to->d = f16_to_f32(block.d);
  to->dmin = 0;
  for (size_t g = 0; g < 16; ++g) {
    const int low = block.scales[g % 8] >> 4 * (g / 8) & 15;
    const int high = block.scales[8 + g % 4] >> 2 * (g / 4) & 3;
    to->scale[g] = static_cast<int16_t>((low | high << 4) - 32);
    to->min[g] = 0;
  }
  for (size_t j = 0; j < 8; ++j) {
    for (size_t i = 0; i < 32; ++i) {
      const int low = block.qs[32 * (j / 4) + i] >> 2 * (j % 4) & 3;
      const int high = block.hmask[i] >> j & 1;
      to->q[32 * j + i] = static_cast<int8_t>((low | high << 2) - 4);
    }
  }
}

void q3_k_dequantize(const std::byte* from, float* to, size_t count) {
  dequantize_blocks<BlockQ3_K, 256, 16, false, q3_k_unpack>(from, to, count);
}

void q3_k_quantize(const float* from, std::byte* to, size_t count) {
  quantize_blocks<BlockQ3_K, 256, fit, pack>(from, to, count);
}

}  // namespace butterfly::kernels
