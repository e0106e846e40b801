// The scale of one group of values: where a quantiser's quality is decided.
//
// Rounding to the grid that just spans the values is not the best choice: a slightly smaller or larger step
// gives less squared error. Both functions try a fixed list of steps, solve for the best scale (and offset)
// by least squares on the integers each step gives, and repeat that from the winner. Arithmetic is plain
// double (+ - * /): squares of any two floats neither overflow nor vanish there, and every machine gets the
// same bits.
#pragma once
#include <cstdint>
#include <span>

namespace butterfly::kernels {

// `from` as doubles a fit can work with: NaN counts as 0, infinities as the largest float.
void load_finite(const float* from, std::span<double> to);

// Nearest integer (ties to even) inside [low, high]; NaN gives low.
int32_t round_clamped(double value, int32_t low, int32_t high);

// The f16 nearest to `value` as a float, never infinite, and never zero unless `value` is: then 2^-24.
float nearest_f16_scale(double value);
// As above, but large enough that |value| / result <= limit + 1/2 where f16 can say so. It matters below
// 2^-14, where f16 has few bits left.
float covering_f16_scale(double value, double limit);

// The f16 value `ulps` steps further from zero (nearer where negative), staying between zero and the largest.
float f16_neighbour(float value, int ulps);

// Values are about scale * q + offset.
struct Fit {
  double scale = 0;
  double offset = 0;  // 0 from fit_symmetric
};

// Values ~ scale * q with q in [q_min, -q_min - 1]. The scale is negative where that fits better, so that the
// largest value can take the extra step at q_min. All zero: scale 0.
Fit fit_symmetric(std::span<const double> values, int32_t q_min);

enum class OffsetSign { kAny, kNotPositive };
// Values ~ scale * q + offset with q in [0, q_max]. Scale >= 0.
Fit fit_affine(std::span<const double> values, int32_t q_max, OffsetSign sign);

// Squared error of `values` on the grid scale * q + offset, q in [q_min, q_max], each at its nearest point.
double grid_error(std::span<const double> values, Fit grid, int32_t q_min, int32_t q_max);
// Those nearest points.
void grid_points(std::span<const double> values, Fit grid, int32_t q_min, int32_t q_max, int8_t* q);

}  // namespace butterfly::kernels
