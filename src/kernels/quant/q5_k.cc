#include "kernels/quant/q5_k.h"

#include "kernels/quant/blocks.h"
#include "kernels/quant/fit_block.h"
#include "kernels/quant/six_bit_scales.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {
namespace {

void fit(const float* from, IntBlock* to) {
  fit_affine_super_block(from, {.group_values = 32, .q_max = 31, .scale_max = 63}, to);
}

BlockQ5_K pack(const IntBlock& from) {
  BlockQ5_K block{.d = f32_to_f16(from.d), .dmin = f32_to_f16(from.dmin), .scales = {}, .qh = {}, .qs = {}};
  pack_six_bit_scales(from.scale, from.min, block.scales);
  for (size_t j = 0; j < 4; ++j) {
    const int8_t* q = from.q + 64 * j;
    for (size_t i = 0; i < 32; ++i) {
      block.qs[32 * j + i] = static_cast<uint8_t>((q[i] & 15) | (q[i + 32] & 15) << 4);
      block.qh[i] |= static_cast<uint8_t>((q[i] >> 4 | (q[i + 32] >> 4) << 1) << 2 * j);
    }
  }
  return block;
}

}  // namespace

void q5_k_unpack(const std::byte* from, IntBlock* to) {
  const auto block = load_block<BlockQ5_K>(from);
  to->d = f16_to_f32(block.d);
  to->dmin = f16_to_f32(block.dmin);
  unpack_six_bit_scales(block.scales, to->scale, to->min);
  for (size_t j = 0; j < 4; ++j) {
    int8_t* q = to->q + 64 * j;
    for (size_t i = 0; i < 32; ++i) {
      const int top = block.qh[i] >> 2 * j;
      q[i] = static_cast<int8_t>((block.qs[32 * j + i] & 15) | (top & 1) << 4);
      q[i + 32] = static_cast<int8_t>((block.qs[32 * j + i] >> 4) | (top >> 1 & 1) << 4);
    }
  }
}

void q5_k_dequantize(const std::byte* from, float* to, size_t count) {
  dequantize_blocks<BlockQ5_K, 256, 32, true, q5_k_unpack>(from, to, count);
}

void q5_k_quantize(const float* from, std::byte* to, size_t count) {
  quantize_blocks<BlockQ5_K, 256, fit, pack>(from, to, count);
}

}  // namespace butterfly::kernels
