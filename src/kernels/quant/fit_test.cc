// Scales of single groups: known answers, and never worse than the grid that just spans the values.
#include "kernels/quant/fit.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "kernels/simd/half.h"

namespace butterfly::kernels {
namespace {

TEST(RoundClamped, TiesGoToEvenAndBoundsHold) {
  EXPECT_EQ(round_clamped(0.5, -8, 7), 0);
  EXPECT_EQ(round_clamped(1.5, -8, 7), 2);
  EXPECT_EQ(round_clamped(-2.5, -8, 7), -2);
  EXPECT_EQ(round_clamped(2.4999, -8, 7), 2);
  EXPECT_EQ(round_clamped(1e300, -8, 7), 7);
  EXPECT_EQ(round_clamped(-1e300, -8, 7), -8);
  EXPECT_EQ(round_clamped(std::numeric_limits<double>::quiet_NaN(), -8, 7), -8);
}

TEST(F16Scale, StaysFiniteAndNonZero) {
  EXPECT_EQ(nearest_f16_scale(0), 0.0f);
  EXPECT_FALSE(std::signbit(nearest_f16_scale(-0.0)));
  EXPECT_EQ(nearest_f16_scale(1e-30), 0x1p-24f);
  EXPECT_EQ(nearest_f16_scale(-1e-30), -0x1p-24f);
  EXPECT_EQ(nearest_f16_scale(1e30), 65504.0f);
  EXPECT_EQ(nearest_f16_scale(-1e30), -65504.0f);
  EXPECT_EQ(nearest_f16_scale(0.1), f16_to_f32(f32_to_f16(0.1f)));
}

TEST(F16Scale, CoveringRoundsUpWhereNearestIsTooSmall) {
  // 1.4 * 2^-24 per step rounds to 2^-24, which would put the largest value at 140 % of the grid.
  EXPECT_EQ(covering_f16_scale(1.4 * 0x1p-24 * 127, 127), 0x1p-23f);
  EXPECT_EQ(covering_f16_scale(-1.4 * 0x1p-24 * 128, -128), 0x1p-23f);
  EXPECT_EQ(covering_f16_scale(1.4 * 0x1p-24 * 128, -128), -0x1p-23f);
  EXPECT_EQ(covering_f16_scale(12.7, 127), nearest_f16_scale(0.1));
  EXPECT_EQ(covering_f16_scale(1e30, 127), 65504.0f);
}

TEST(F16Neighbour, StepsBetweenZeroAndTheLargest) {
  EXPECT_EQ(f16_neighbour(1.0f, 1), 1.0f + 0x1p-10f);
  EXPECT_EQ(f16_neighbour(1.0f, -1), 1.0f - 0x1p-11f);
  EXPECT_EQ(f16_neighbour(-1.0f, 1), -1.0f - 0x1p-10f);
  EXPECT_EQ(f16_neighbour(0.0f, -1), 0.0f);
  EXPECT_EQ(f16_neighbour(65504.0f, 1), 65504.0f);
}

TEST(LoadFinite, ReplacesWhatIsNotANumber) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float from[] = {1.5f, std::numeric_limits<float>::quiet_NaN(), kInf, -kInf};
  std::array<double, 4> to;
  load_finite(from, to);
  constexpr double kMax = std::numeric_limits<float>::max();
  EXPECT_EQ(to, (std::array<double, 4>{1.5, 0.0, kMax, -kMax}));
}

TEST(FitSymmetric, FindsTheScaleOfAnExactGrid) {
  std::array<double, 16> values;
  for (int i = 0; i < 16; ++i) values[i] = 0.3 * (i - 8);
  EXPECT_NEAR(fit_symmetric(values, -8).scale, 0.3, 1e-15);
  for (double& x : values) x = -x;  // now the extra step is on the positive side
  EXPECT_NEAR(fit_symmetric(values, -8).scale, -0.3, 1e-15);
}

TEST(FitAffine, FindsScaleAndOffsetOfAnExactGrid) {
  std::array<double, 16> values;
  for (int i = 0; i < 16; ++i) values[i] = 0.3 * i + 2;
  const Fit any = fit_affine(values, 15, OffsetSign::kAny);
  EXPECT_NEAR(any.scale, 0.3, 1e-13);
  EXPECT_NEAR(any.offset, 2, 1e-13);
  EXPECT_LE(fit_affine(values, 15, OffsetSign::kNotPositive).offset, 0);
}

TEST(FitAffine, ConstantsNeedNoScale) {
  const std::vector<double> values(16, -3.0);
  const Fit fit = fit_affine(values, 15, OffsetSign::kNotPositive);
  EXPECT_EQ(fit.scale, 0);
  EXPECT_EQ(fit.offset, -3);
}

TEST(Fit, IsNeverWorseThanTheSpanningGrid) {
  double plain_total = 0;
  double fitted_total = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::array<double, 32> values;
    double low = 0, high = 0, largest = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = random_normal(seed, 0, i);
      low = std::min(low, values[i]);
      high = std::max(high, values[i]);
      if (std::fabs(values[i]) > std::fabs(largest)) largest = values[i];
    }
    const double plain = grid_error(values, {largest / -8, 0}, -8, 7);
    const double fitted = grid_error(values, fit_symmetric(values, -8), -8, 7);
    ASSERT_LE(fitted, plain * (1 + 1e-12)) << "seed " << seed;
    const double plain_affine = grid_error(values, {(high - low) / 15, low}, 0, 15);
    const double fitted_affine = grid_error(values, fit_affine(values, 15, OffsetSign::kNotPositive), 0, 15);
    ASSERT_LE(fitted_affine, plain_affine * (1 + 1e-12)) << "seed " << seed;
    plain_total += plain + plain_affine;
    fitted_total += fitted + fitted_affine;
  }
  // The search is worth its time: a sixth less squared error on normal values.
  EXPECT_LT(fitted_total, 0.85 * plain_total);
}

}  // namespace
}  // namespace butterfly::kernels
