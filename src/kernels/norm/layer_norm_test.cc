// Layer norm: hand values, accuracy, then every target against the plain loop, bit for bit.
#include "kernels/norm/layer_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/testing/shape_sweep.h"

namespace butterfly::kernels {
namespace {

TEST(LayerNorm, HandValues) {
  const float x[] = {1, 3}, weight[] = {2, 4}, bias[] = {10, 20};
  float out[2];
  ref::layer_norm(x, weight, bias, 0, out, 2);  // mean 2, variance 1
  EXPECT_EQ(out[0], 8);
  EXPECT_EQ(out[1], 24);
  ref::layer_norm(x, nullptr, bias, 3, out, 2);
  EXPECT_EQ(out[0], 9.5f);
  ref::layer_norm(x, weight, nullptr, 3, out, 2);
  EXPECT_EQ(out[1], 2);
  ref::layer_norm(x, nullptr, nullptr, 3, out, 2);
  EXPECT_EQ(out[0], -0.5f);
}

TEST(LayerNorm, IsAccurateOnAFarMean) {
  auto x = random_floats(3000, 1);
  for (float& v : x) v += 1000;
  long double mean = 0, variance = 0;
  for (float v : x) mean += v;
  mean /= 3000;
  for (float v : x) variance += (v - mean) * (v - mean);
  variance /= 3000;
  std::vector<float> out(x.size());
  ref::layer_norm(x.data(), nullptr, nullptr, 1e-5f, out.data(), x.size());
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_NEAR(out[i], static_cast<double>((x[i] - mean) / std::sqrt(variance + 1e-5L)), 2e-4);
}

TEST(LayerNorm, EveryTargetIsThePlainLoop) {
  const auto x_values = random_floats(5000, 3, 2.0f), w_values = wild_floats(5000, 4),
             b_values = wild_floats(5000, 5);
  for_each_shape([&](const std::string& target, size_t count, size_t offset) {
    const OffsetFloats w(w_values, count, (offset + 1) % 4), b(b_values, count, (offset + 2) % 4);
    for (int which = 0; which < 4; ++which) {
      const float* weight = which & 1 ? w.data() : nullptr;
      const float* bias = which & 2 ? b.data() : nullptr;
      OffsetFloats x(x_values, count, offset), want(count, 0), got(count, (offset + 3) % 4);
      ref::layer_norm(x.data(), weight, bias, 1e-6f, want.data(), count);
      layer_norm(x.data(), weight, bias, 1e-6f, got.data(), count);
      ASSERT_EQ(first_difference(want.data(), got.data(), count), count) << target << " " << which;
      layer_norm(x.data(), weight, bias, 1e-6f, x.data(), count);
      ASSERT_EQ(first_difference(want.data(), x.data(), count), count) << target << " in place " << which;
    }
  });
}

}  // namespace
}  // namespace butterfly::kernels
