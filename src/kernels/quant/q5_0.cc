#include "kernels/quant/q5_0.h"

#include "kernels/quant/blocks.h"
#include "kernels/quant/fit_block.h"
#include "kernels/quant/five_bits.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {
namespace {

void fit(const float* from, IntBlock* to) { fit_symmetric_block(from, -16, to); }

BlockQ5_0 pack(const IntBlock& from) {
  BlockQ5_0 block{.d = f32_to_f16(from.d), .qh = {}, .qs = {}};
  pack_five_bits<16>(from.q, block.qh, block.qs);
  return block;
}

}  // namespace

void q5_0_unpack(const std::byte* from, IntBlock* to) {
  const auto block = load_block<BlockQ5_0>(from);
  to->d = f16_to_f32(block.d);
  to->dmin = 0;
  to->scale[0] = 1;
  to->min[0] = 0;
  unpack_five_bits<16>(block.qh, block.qs, to->q);
}

void q5_0_dequantize(const std::byte* from, float* to, size_t count) {
  dequantize_blocks<BlockQ5_0, 32, 32, false, q5_0_unpack>(from, to, count);
}

void q5_0_quantize(const float* from, std::byte* to, size_t count) {
  quantize_blocks<BlockQ5_0, 32, fit, pack>(from, to, count);
}

}  // namespace butterfly::kernels
