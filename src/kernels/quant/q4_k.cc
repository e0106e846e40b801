#include "kernels/quant/q4_k.h"

#include "kernels/quant/blocks.h"
#include "kernels/quant/fit_block.h"
#include "kernels/quant/six_bit_scales.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {
namespace {

void fit(const float* from, IntBlock* to) {
  fit_affine_super_block(from, {.group_values = 32, .q_max = 15, .scale_max = 63}, to);
}

BlockQ4_K pack(const IntBlock& from) {
  BlockQ4_K block{.d = f32_to_f16(from.d), .dmin = f32_to_f16(from.dmin), .scales = {}, .qs = {}};
  pack_six_bit_scales(from.scale, from.min, block.scales);
  for (size_t j = 0; j < 4; ++j) {
    const int8_t* q = from.q + 64 * j;
    for (size_t i = 0; i < 32; ++i) block.qs[32 * j + i] = static_cast<uint8_t>(q[i] | q[i + 32] << 4);
  }
  return block;
}

}  // namespace

void q4_k_unpack(const std::byte* from, IntBlock* to) {
  const auto block = load_block<BlockQ4_K>(from);
  to->d = f16_to_f32(block.d);
  to->dmin = f16_to_f32(block.dmin);
  unpack_six_bit_scales(block.scales, to->scale, to->min);
  for (size_t j = 0; j < 4; ++j) {
    int8_t* q = to->q + 64 * j;
    for (size_t i = 0; i < 32; ++i) {
      q[i] = static_cast<int8_t>(block.qs[32 * j + i] & 15);
      q[i + 32] = static_cast<int8_t>(block.qs[32 * j + i] >> 4);
    }
  }
}

void q4_k_dequantize(const std::byte* from, float* to, size_t count) {
  dequantize_blocks<BlockQ4_K, 256, 32, true, q4_k_unpack>(from, to, count);
}

void q4_k_quantize(const float* from, std::byte* to, size_t count) {
  quantize_blocks<BlockQ4_K, 256, fit, pack>(from, to, count);
}

}  // namespace butterfly::kernels
