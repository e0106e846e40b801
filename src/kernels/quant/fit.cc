#include "kernels/quant/fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "kernels/simd/half.h"

namespace butterfly::kernels {
namespace {

constexpr double kF16Max = 65504.0;
constexpr float kF16Tiny = 0x1p-24f;
// Tenths of q by which the grid is made wider or narrower. 0 comes first: of equal errors the full range
// wins, whose scale suffers least from being rounded later. On normal values +-1.8 leaves 2 % less error in
// Q6_K than +-0.9 in as many steps of half the size, and 0.1 to 0.2 % in the 4-bit types.
constexpr int kSteps[] = {0, -2, 2, -4, 4, -6, 6, -8, 8, -10, 10, -12, 12, -14, 14, -16, 16, -18, 18};
constexpr size_t kLanes = 4;  // partial sums; every group is a multiple
// Least squares and rounding again, from the best step found. Two passes gain 0.4 % on Q4_1, four 0.01 %
// more.
constexpr int kPasses = 2;

double clamp(double value, double low, double high) {
  const double above = value > low ? value : low;
  return above < high ? above : high;
}

// Nearest integer, ties to even, for |value| < 2^51: the sum has no bits left below 1.
double round_even(double value) {
  constexpr double kMagic = 0x1.8p52;
  return (value + kMagic) - kMagic;
}

double nearest_q(double value, double inverse, double low, double high) {
  return round_even(clamp(value * inverse, low, high));
}

// Sums over the values of a group, in kLanes partial sums so that they need not wait for each other.
struct Sum {
  double lane[kLanes] = {};
  double total() const { return (lane[0] + lane[2]) + (lane[1] + lane[3]); }
};

struct SymmetricSums {
  double xq = 0;
  double qq = 0;
  double gain() const { return qq > 0 ? xq * xq / qq : 0; }  // how much of sum(x^2) the grid explains
};

SymmetricSums symmetric_sums(std::span<const double> values, double inverse, double low, double high) {
  Sum xq, qq;
  for (size_t i = 0; i < values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double x = values[i + lane];
      const double q = nearest_q(x, inverse, low, high);
      xq.lane[lane] += x * q;
      qq.lane[lane] += q * q;
    }
  }
  return {xq.total(), qq.total()};
}

struct AffineSums {
  double q = 0;
  double qq = 0;
  double xq = 0;
};

AffineSums affine_sums(std::span<const double> values, double offset, double inverse, double high) {
  Sum sum_q, qq, xq;
  for (size_t i = 0; i < values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double x = values[i + lane];
      const double q = nearest_q(x - offset, inverse, 0, high);
      sum_q.lane[lane] += q;
      qq.lane[lane] += q * q;
      xq.lane[lane] += x * q;
    }
  }
  return {sum_q.total(), qq.total(), xq.total()};
}

// What stays the same while the steps of one group are tried.
struct AffineProblem {
  double count;
  double x = 0;   // sum of values
  double xx = 0;  // sum of squares
  OffsetSign sign;

  // Least squares for (scale, offset) given the q behind `sums`; returns the squared error.
  double solve(const AffineSums& sums, Fit* fit) const {
    const double determinant = count * sums.qq - sums.q * sums.q;
    if (determinant > 0) {
      fit->scale = (count * sums.xq - x * sums.q) / determinant;
      fit->offset = (sums.qq * x - sums.q * sums.xq) / determinant;
    } else {
      fit->scale = 0;
      fit->offset = x / count;
    }
    if (sign == OffsetSign::kNotPositive && fit->offset > 0) {
      fit->scale = sums.qq > 0 ? sums.xq / sums.qq : 0;
      fit->offset = 0;
    }
    const double s = fit->scale;
    const double o = fit->offset;
    return xx + s * s * sums.qq + count * o * o - 2 * (s * sums.xq + o * x - s * o * sums.q);
  }
};

}  // namespace

void load_finite(const float* from, std::span<double> to) {
  constexpr double kMax = std::numeric_limits<float>::max();
  for (size_t i = 0; i < to.size(); ++i) to[i] = from[i] == from[i] ? clamp(from[i], -kMax, kMax) : 0.0;
}

int32_t round_clamped(double value, int32_t low, int32_t high) {
  return static_cast<int32_t>(round_even(clamp(value, low, high)));
}

float nearest_f16_scale(double value) {
  if (value == 0) return 0;
  const float rounded = f16_to_f32(f32_to_f16(static_cast<float>(clamp(value, -kF16Max, kF16Max))));
  if (rounded != 0) return rounded;
  return value < 0 ? -kF16Tiny : kF16Tiny;
}

float covering_f16_scale(double value, double limit) {
  const float nearest = nearest_f16_scale(value / limit);
  if (std::fabs(value) <= (std::fabs(limit) + 0.5) * std::fabs(nearest) || std::fabs(nearest) >= kF16Max)
    return nearest;
  return f16_neighbour(nearest, 1);
}

float f16_neighbour(float value, int ulps) {
  constexpr int kMaxBits = 0x7bff;
  const int bits = f32_to_f16(value);
  const int magnitude = std::clamp((bits & 0x7fff) + ulps, 0, kMaxBits);
  return f16_to_f32(static_cast<uint16_t>((bits & 0x8000) | magnitude));
}

Fit fit_symmetric(std::span<const double> values, int32_t q_min) {
  double largest = 0;
  for (const double x : values)
    if (std::fabs(x) > std::fabs(largest)) largest = x;
  if (largest == 0) return {};

  const double low = q_min;
  const double high = -low - 1;
  SymmetricSums best;
  for (const int step : kSteps) {
    const SymmetricSums sums = symmetric_sums(values, (low + 0.1 * step) / largest, low, high);
    if (sums.gain() > best.gain()) best = sums;
  }
  for (int pass = 0; pass < kPasses; ++pass) {
    const SymmetricSums sums = symmetric_sums(values, best.qq / best.xq, low, high);
    if (!(sums.gain() > best.gain())) break;
    best = sums;
  }
  return {best.xq / best.qq, 0};
}

Fit fit_affine(std::span<const double> values, int32_t q_max, OffsetSign sign) {
  AffineProblem problem{.count = static_cast<double>(values.size()), .sign = sign};
  double low = values[0];
  double high = values[0];
  for (const double x : values) {
    low = x < low ? x : low;
    high = x > high ? x : high;
    problem.x += x;
    problem.xx += x * x;
  }
  if (sign == OffsetSign::kNotPositive && low > 0) low = 0;
  if (low == high) return {0, low};

  Fit best{(high - low) / q_max, low};
  double best_error = std::numeric_limits<double>::infinity();
  for (const int step : kSteps) {
    const double inverse = (q_max + 0.1 * step) / (high - low);
    Fit fit;
    const double error = problem.solve(affine_sums(values, low, inverse, q_max), &fit);
    if (error < best_error && fit.scale > 0) best = fit, best_error = error;
  }
  for (int pass = 0; pass < kPasses; ++pass) {
    Fit fit;
    const double error = problem.solve(affine_sums(values, best.offset, 1 / best.scale, q_max), &fit);
    if (!(error < best_error && fit.scale > 0)) break;
    best = fit, best_error = error;
  }
  return best;
}

double grid_error(std::span<const double> values, Fit grid, int32_t q_min, int32_t q_max) {
  const double inverse = grid.scale != 0 ? 1 / grid.scale : 0;
  const double low = q_min;
  const double high = q_max;
  Sum error;
  for (size_t i = 0; i < values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double x = values[i + lane] - grid.offset;
      const double difference = x - grid.scale * nearest_q(x, inverse, low, high);
      error.lane[lane] += difference * difference;
    }
  }
  return error.total();
}

void grid_points(std::span<const double> values, Fit grid, int32_t q_min, int32_t q_max, int8_t* q) {
  const double inverse = grid.scale != 0 ? 1 / grid.scale : 0;
  for (size_t i = 0; i < values.size(); ++i)
    q[i] = static_cast<int8_t>(round_clamped((values[i] - grid.offset) * inverse, q_min, q_max));
}

}  // namespace butterfly::kernels
