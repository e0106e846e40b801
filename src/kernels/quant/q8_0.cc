#include "kernels/quant/q8_0.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/half.h"
#include "kernels/quant/blocks.h"
#include "kernels/quant/fit.h"

namespace butterfly::kernels {
namespace {

// With 255 steps a search for a better scale gains under 1 %, and this type also stores KV caches, where it
// must be fast: one pass for the largest value, one to round.
void fit(const float* from, IntBlock* to) {
  std::array<double, 32> values;
  load_finite(from, values);
  double largest = 0;
  for (const double x : values) largest = std::max(largest, std::fabs(x));
  to->d = covering_f16_scale(largest, 127);
  to->dmin = 0;
  to->scale[0] = 1;
  to->min[0] = 0;
  grid_points(values, {to->d, 0}, -127, 127, to->q);
}

BlockQ8_0 pack(const IntBlock& from) {
  BlockQ8_0 block{.d = f32_to_f16(from.d), .qs = {}};
  std::memcpy(block.qs, from.q, sizeof block.qs);
  return block;
}

}  // namespace

void q8_0_unpack(const std::byte* from, IntBlock* to) {
  const auto block = load_block<BlockQ8_0>(from);
  to->d = f16_to_f32(block.d);
  to->dmin = 0;
  to->scale[0] = 1;
  to->min[0] = 0;
  std::memcpy(to->q, block.qs, sizeof block.qs);
}

void q8_0_dequantize(const std::byte* from, float* to, size_t count) {
  dequantize_blocks<BlockQ8_0, 32, 32, false, q8_0_unpack>(from, to, count);
}

void q8_0_quantize(const float* from, std::byte* to, size_t count) {
  quantize_blocks<BlockQ8_0, 32, fit, pack>(from, to, count);
}

}  // namespace butterfly::kernels
