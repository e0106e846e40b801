#include "kernels/quant/q5_1.h"

#include "kernels/quant/blocks.h"
#include "kernels/quant/fit_block.h"
#include "kernels/quant/five_bits.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {
namespace {

void fit(const float* from, IntBlock* to) { fit_affine_block(from, 31, to); }

BlockQ5_1 pack(const IntBlock& from) {
  BlockQ5_1 block{.d = f32_to_f16(from.d), .m = f32_to_f16(-from.dmin), .qh = {}, .qs = {}};
  pack_five_bits<0>(from.q, block.qh, block.qs);
  return block;
}

}  // namespace

void q5_1_unpack(const std::byte* from, IntBlock* to) {
  const auto block = load_block<BlockQ5_1>(from);
  to->d = f16_to_f32(block.d);
  to->dmin = -f16_to_f32(block.m);
  to->scale[0] = 1;
  to->min[0] = 1;
  unpack_five_bits<0>(block.qh, block.qs, to->q);
}

void q5_1_dequantize(const std::byte* from, float* to, size_t count) {
  dequantize_blocks<BlockQ5_1, 32, 32, true, q5_1_unpack>(from, to, count);
}

void q5_1_quantize(const float* from, std::byte* to, size_t count) {
  quantize_blocks<BlockQ5_1, 32, fit, pack>(from, to, count);
}

}  // namespace butterfly::kernels
