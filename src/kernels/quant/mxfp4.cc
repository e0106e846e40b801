#include "kernels/quant/mxfp4.h"

#include <algorithm>
#include <cmath>

#include "kernels/quant/blocks.h"

namespace butterfly::kernels {
namespace {

constexpr int kScaleMax = 252;  // 12 * 2^124 is the largest point that is a float

double finite_or_zero(float x) {
  constexpr double kMax = 0x1.8p127;
  return std::isnan(x) ? 0 : std::clamp(static_cast<double>(x), -kMax, kMax);
}

// The nearest point: thresholds lie half-way between neighbours.
uint8_t nearest(double x) {
  constexpr double kHalfWay[] = {0.5, 1.5, 2.5, 3.5, 5, 7, 10};
  const double size = std::fabs(x);
  uint8_t code = 0;
  while (code < 7 && size > kHalfWay[code]) ++code;
  return code != 0 && x < 0 ? static_cast<uint8_t>(code | 8) : code;
}

struct Fit {
  double error;
  BlockMXFP4 block;
};

Fit fit_with(const float* from, int e) {
  Fit fit{.error = 0, .block = {.e = static_cast<uint8_t>(e), .qs = {}}};
  const double scale = std::ldexp(1.0, e - 128);
  for (size_t i = 0; i < 32; ++i) {
    const double x = finite_or_zero(from[i]) / scale;
    const uint8_t code = nearest(x);
    const double off = x - kMxfp4Points[code];
    fit.error += off * off * scale * scale;
    fit.block.qs[i % 16] |= static_cast<uint8_t>(i < 16 ? code : code << 4);
  }
  return fit;
}

// The power that makes the largest value 8 to 16 points, which is the usual choice, or a neighbour if the
// squared error is less.
BlockMXFP4 fit(const float* from) {
  double largest = 0;
  for (size_t i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(finite_or_zero(from[i])));
  if (largest == 0) return {};
  const int usual = std::clamp(std::ilogb(largest) - 3 + 128, 0, kScaleMax);
  Fit best = fit_with(from, usual);
  for (const int e : {usual - 1, usual + 1}) {
    if (e < 0 || e > kScaleMax) continue;
    if (const Fit other = fit_with(from, e); other.error < best.error) best = other;
  }
  return best.block;
}

}  // namespace

void mxfp4_unpack(const std::byte* from, IntBlock* to) {
  const auto block = load_block<BlockMXFP4>(from);
  to->d = mxfp4_scale(block.e);
  to->dmin = 0;
  to->scale[0] = 1;
  to->min[0] = 0;
  for (size_t i = 0; i < 16; ++i) {
    to->q[i] = kMxfp4Points[block.qs[i] & 15];
    to->q[i + 16] = kMxfp4Points[block.qs[i] >> 4];
  }
}

void mxfp4_dequantize(const std::byte* from, float* to, size_t count) {
  dequantize_blocks<BlockMXFP4, 32, 32, false, mxfp4_unpack>(from, to, count);
}

void mxfp4_quantize(const float* from, std::byte* to, size_t count) {
  for (size_t i = 0; i < count; i += 32, to += sizeof(BlockMXFP4)) {
    const BlockMXFP4 block = fit(from + i);
    std::memcpy(to, &block, sizeof block);
  }
}

}  // namespace butterfly::kernels
