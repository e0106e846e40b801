#include "kernels/quant/q8_0.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/quant/blocks.h"
#include "kernels/quant/fit.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {
namespace {

// NaN as 0, and nothing beyond what the largest f16 scale reaches: later products then fit an integer.
float representable(float x) {
  constexpr float kMax = 65504.0f * 127.0f;
  const float number = x == x ? x : 0.0f;
  const float below = number < kMax ? number : kMax;
  return below > -kMax ? below : -kMax;
}

// No search here: it would take 9 % off an error that is 0.5 % of the values, and this type also stores KV
// caches, where it must be fast. One pass for the largest value, one to round, in float and in a form that
// the compiler can vectorise.
void fit(const float* from, IntBlock* to) {
  constexpr size_t kLanes = 8;
  std::array<float, 32> values;
  std::array<float, kLanes> largest_of = {};
  for (size_t i = 0; i < 32; ++i) values[i] = representable(from[i]);
  for (size_t i = 0; i < 32; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float size = std::fabs(values[i + lane]);
      largest_of[lane] = largest_of[lane] > size ? largest_of[lane] : size;
    }
  float largest = 0;
  for (const float size : largest_of) largest = std::max(largest, size);

  to->d = covering_f16_scale(largest, 127);
  to->dmin = 0;
  to->scale[0] = 1;
  to->min[0] = 0;
  const float inverse = to->d != 0 ? 1 / to->d : 0;
  constexpr float kMagic = 0x1.8p23f;  // a sum with it has no bits below 1: rounded, ties to even
  for (size_t i = 0; i < 32; ++i) {
    const auto q = static_cast<int32_t>((values[i] * inverse + kMagic) - kMagic);
    to->q[i] = static_cast<int8_t>(std::clamp(q, -127, 127));  // d may have been rounded down
  }
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
