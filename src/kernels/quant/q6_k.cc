#include "kernels/quant/q6_k.h"

#include "kernels/quant/blocks.h"
#include "kernels/quant/fit_block.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {
namespace {

void fit(const float* from, IntBlock* to) { fit_symmetric_super_block(from, -32, -128, to); }

BlockQ6_K pack(const IntBlock& from) {
  BlockQ6_K block{.ql = {}, .qh = {}, .scales = {}, .d = f32_to_f16(from.d)};
  for (size_t g = 0; g < 16; ++g) block.scales[g] = static_cast<int8_t>(from.scale[g]);
  for (size_t half = 0; half < 2; ++half) {
    for (size_t i = 0; i < 128; ++i) {
      const int q = from.q[128 * half + i] + 32;
      block.ql[64 * half + i % 64] |= static_cast<uint8_t>((q & 15) << 4 * (i / 64));
      block.qh[32 * half + i % 32] |= static_cast<uint8_t>((q >> 4) << 2 * (i / 32));
    }
  }
  return block;
}

}  // namespace

void q6_k_unpack(const std::byte* from, IntBlock* to) {
  const auto block = load_block<BlockQ6_K>(from);
  to->d = f16_to_f32(block.d);
  to->dmin = 0;
  for (size_t g = 0; g < 16; ++g) {
    to->scale[g] = block.scales[g];
    to->min[g] = 0;
  }
  for (size_t half = 0; half < 2; ++half) {
    const uint8_t* ql = block.ql + 64 * half;
    const uint8_t* qh = block.qh + 32 * half;
    int8_t* q = to->q + 128 * half;
    for (size_t i = 0; i < 32; ++i) {
      q[i] = static_cast<int8_t>(((ql[i] & 15) | (qh[i] & 3) << 4) - 32);
      q[i + 32] = static_cast<int8_t>(((ql[i + 32] & 15) | (qh[i] >> 2 & 3) << 4) - 32);
      q[i + 64] = static_cast<int8_t>(((ql[i] >> 4) | (qh[i] >> 4 & 3) << 4) - 32);
      q[i + 96] = static_cast<int8_t>(((ql[i + 32] >> 4) | (qh[i] >> 6) << 4) - 32);
    }
  }
}

void q6_k_dequantize(const std::byte* from, float* to, size_t count) {
  dequantize_blocks<BlockQ6_K, 256, 16, false, q6_k_unpack>(from, to, count);
}

void q6_k_quantize(const float* from, std::byte* to, size_t count) {
  quantize_blocks<BlockQ6_K, 256, fit, pack>(from, to, count);
}

}  // namespace butterfly::kernels
