#include "kernels/quant/q1_0.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/quant/blocks.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {
namespace {

constexpr double kMax = std::numeric_limits<float>::max();

}  // namespace

void q1_0_unpack(const std::byte* from, IntBlock* to) {
  const auto block = load_block<BlockQ1_0>(from);
  to->d = f16_to_f32(block.d);
  to->dmin = 0;
  for (size_t g = 0; g < 4; ++g) {
    to->scale[g] = 1;
    to->min[g] = 0;
  }
  for (size_t i = 0; i < 128; ++i) to->q[i] = static_cast<int8_t>(2 * (block.qs[i / 8] >> i % 8 & 1) - 1);
}

void q1_0_dequantize(const std::byte* from, float* to, size_t count) {
  dequantize_blocks<BlockQ1_0, 128, 32, false, q1_0_unpack>(from, to, count);
}

// The scale of the least squared error is the mean magnitude.
void q1_0_quantize(const float* from, std::byte* to, size_t count) {
  for (size_t i = 0; i < count; i += 128, from += 128, to += sizeof(BlockQ1_0)) {
    BlockQ1_0 block{};
    double sum = 0;
    for (size_t j = 0; j < 128; ++j) {
      const double x = std::isnan(from[j]) ? 0 : std::clamp<double>(from[j], -kMax, kMax);
      sum += std::fabs(x);
      if (!(x < 0)) block.qs[j / 8] = static_cast<uint8_t>(block.qs[j / 8] | 1u << j % 8);
    }
    block.d = f32_to_f16(static_cast<float>(std::min(sum / 128, 65504.0)));
    std::memcpy(to, &block, sizeof block);
  }
}

}  // namespace butterfly::kernels
