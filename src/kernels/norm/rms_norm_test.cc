// RMS norm: hand values, accuracy, then every target against the plain loop, bit for bit.
#include "kernels/norm/rms_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/testing/shape_sweep.h"

namespace butterfly::kernels {
namespace {

TEST(RmsNorm, HandValues) {
  const float x[] = {3, -4}, weight[] = {2, 0.5f};
  float out[2];
  ref::rms_norm(x, weight, 0, out, 2);  // root of the mean square: sqrt(12.5)
  EXPECT_NEAR(out[0], 6 / std::sqrt(12.5), 1e-6);
  EXPECT_NEAR(out[1], -2 / std::sqrt(12.5), 1e-6);
  ref::rms_norm(x, nullptr, 12.5f, out, 2);
  EXPECT_NEAR(out[0], 3.0 / 5, 1e-6);
  const float zeros[] = {0, 0};
  ref::rms_norm(zeros, nullptr, 1e-5f, out, 2);
  EXPECT_EQ(out[0], 0);
}

TEST(RmsNorm, IsAccurate) {
  const auto x = random_floats(4096, 1, 7.0f), weight = random_floats(4096, 2);
  long double squares = 0;
  for (float v : x) squares += static_cast<long double>(v) * v;
  const long double s = 1 / std::sqrt(squares / 4096 + 1e-5L);
  std::vector<float> out(x.size());
  ref::rms_norm(x.data(), weight.data(), 1e-5f, out.data(), x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const auto want = static_cast<double>(x[i] * s * weight[i]);
    ASSERT_NEAR(out[i], want, 1e-6 * std::fabs(want));
  }
}

TEST(RmsNorm, EveryTargetIsThePlainLoop) {
  const auto x_values = random_floats(5000, 3, 2.0f), w_values = wild_floats(5000, 4);
  for_each_shape([&](const std::string& target, size_t count, size_t offset) {
    const OffsetFloats w(w_values, count, (offset + 1) % 4);
    for (const float* weight : {w.data(), static_cast<const float*>(nullptr)}) {
      OffsetFloats x(x_values, count, offset), want(count, 0), got(count, (offset + 2) % 4);
      ref::rms_norm(x.data(), weight, 1e-6f, want.data(), count);
      rms_norm(x.data(), weight, 1e-6f, got.data(), count);
      ASSERT_EQ(first_difference(want.data(), got.data(), count), count) << target;
      rms_norm(x.data(), weight, 1e-6f, x.data(), count);
      ASSERT_EQ(first_difference(want.data(), x.data(), count), count) << target << " in place";
    }
  });
}

}  // namespace
}  // namespace butterfly::kernels
