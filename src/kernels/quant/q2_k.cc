#include "kernels/quant/q2_k.h"

#include "kernels/quant/blocks.h"
#include "kernels/quant/fit_block.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {
namespace {

void fit(const float* from, IntBlock* to) {
  fit_affine_super_block(from, {.group_values = 16, .q_max = 3, .scale_max = 15}, to);
}

BlockQ2_K pack(const IntBlock& from) {
  BlockQ2_K block{.scales = {}, .qs = {}, .d = f32_to_f16(from.d), .dmin = f32_to_f16(from.dmin)};
  for (size_t g = 0; g < 16; ++g) block.scales[g] = static_cast<uint8_t>(from.scale[g] | from.min[g] << 4);
  for (size_t half = 0; half < 2; ++half) {
    const int8_t* q = from.q + 128 * half;
    for (size_t i = 0; i < 32; ++i)
      block.qs[32 * half + i] = static_cast<uint8_t>(q[i] | q[i + 32] << 2 | q[i + 64] << 4 | q[i + 96] << 6);
  }
  return block;
}

}  // namespace

void q2_k_unpack(const std::byte* from, IntBlock* to) {
  const auto block = load_block<BlockQ2_K>(from);
  to->d = f16_to_f32(block.d);
  to->dmin = f16_to_f32(block.dmin);
  for (size_t g = 0; g < 16; ++g) {
    to->scale[g] = block.scales[g] & 15;
    to->min[g] = block.scales[g] >> 4;
  }
  for (size_t half = 0; half < 2; ++half)
    for (size_t j = 0; j < 4; ++j)
      for (size_t i = 0; i < 32; ++i)
        to->q[128 * half + 32 * j + i] = static_cast<int8_t>(block.qs[32 * half + i] >> (2 * j) & 3);
}

void q2_k_dequantize(const std::byte* from, float* to, size_t count) {
  dequantize_blocks<BlockQ2_K, 256, 16, true, q2_k_unpack>(from, to, count);
}

void q2_k_quantize(const float* from, std::byte* to, size_t count) {
  quantize_blocks<BlockQ2_K, 256, fit, pack>(from, to, count);
}

}  // namespace butterfly::kernels
