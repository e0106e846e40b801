// Slopes of activations: differences of the forward functions, then every target against the plain loops.
#include "kernels/elementwise/activation_backward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/elementwise/activation.h"
#include "kernels/testing/shape_sweep.h"

namespace butterfly::kernels {
namespace {

using Backward = void (*)(const float*, const float*, float*, size_t);
using Gated = void (*)(const float*, const float*, const float*, float*, float*, size_t);

double sigmoid64(double x) { return 1 / (1 + std::exp(-x)); }
double gelu_slope64(double x) {
  const double c = std::sqrt(2 / M_PI), t = std::tanh(c * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}
double gelu_erf_slope64(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
}

TEST(ActivationBackward, SlopesAreThoseOfTheFunctions) {
  for (double x = -20; x <= 20; x += 0.0625) {
    const auto f = static_cast<float>(x);
    const float two = 2;
    float dx = 0;
    const double s = sigmoid64(x), t = std::tanh(x);
    const auto s32 = static_cast<float>(s), t32 = static_cast<float>(t);
    ref::silu_backward(&f, &two, &dx, 1);
    EXPECT_NEAR(dx, 2 * (s + x * s * (1 - s)), 2e-6) << x;
    ref::gelu_backward(&f, &two, &dx, 1);
    EXPECT_NEAR(dx, 2 * gelu_slope64(x), 4e-6) << x;
    ref::gelu_erf_backward(&f, &two, &dx, 1);
    EXPECT_NEAR(dx, 2 * gelu_erf_slope64(x), 1e-6) << x;
    ref::sigmoid_backward(&s32, &two, &dx, 1);
    EXPECT_NEAR(dx, 2 * s * (1 - s), 1e-6) << x;
    ref::tanh_backward(&t32, &two, &dx, 1);
    EXPECT_NEAR(dx, 2 * (1 - t * t), 1e-6) << x;
    ref::relu_backward(&f, &two, &dx, 1);
    EXPECT_EQ(dx, x > 0 ? 2 : 0) << x;
    const float up = 3;
    float dgate = 0, dup = 0;
    ref::swiglu_backward(&f, &up, &two, &dgate, &dup, 1);
    EXPECT_NEAR(dgate, 6 * (s + x * s * (1 - s)), 6e-6) << x;
    EXPECT_NEAR(dup, 2 * x * s, 1e-5) << x;
    ref::geglu_backward(&f, &up, &two, &dgate, &dup, 1);
    EXPECT_NEAR(dgate, 6 * gelu_slope64(x), 1.2e-5) << x;
  }
}

TEST(ActivationBackward, EndsOfTheRange) {
  for (Backward slope : {ref::silu_backward, ref::gelu_backward, ref::gelu_erf_backward}) {
    const float x[] = {INFINITY, -INFINITY, 3e38f, -3e38f, NAN}, dy[] = {5, 5, 5, 5, 5};
    float dx[5];
    slope(x, dy, dx, 5);
    EXPECT_EQ(dx[0], 5);
    EXPECT_NEAR(dx[1], 0, 1e-30);
    EXPECT_EQ(dx[2], 5);
    EXPECT_NEAR(dx[3], 0, 1e-30);
    EXPECT_TRUE(std::isnan(dx[4]));
  }
}

TEST(SoftmaxBackward, HandValues) {
  const float y[] = {0.25f, 0.75f}, dy[] = {4, 8};
  float dx[2];
  ref::softmax_backward(y, dy, dx, 2);
  EXPECT_EQ(dx[0], 0.25f * (4 - 7));
  EXPECT_EQ(dx[1], 0.75f * (8 - 7));
}

TEST(ActivationBackward, EveryTargetIsThePlainLoop) {
  const std::pair<Backward, Backward> unary[] = {
      {ref::relu_backward, relu_backward},       {ref::sigmoid_backward, sigmoid_backward},
      {ref::tanh_backward, tanh_backward},       {ref::silu_backward, silu_backward},
      {ref::gelu_backward, gelu_backward},       {ref::gelu_erf_backward, gelu_erf_backward},
      {ref::softmax_backward, softmax_backward},
  };
  const std::pair<Gated, Gated> gated[] = {{ref::swiglu_backward, swiglu_backward},
                                           {ref::geglu_backward, geglu_backward}};
  const auto xs = wild_floats(5000, 1), ups = wild_floats(5000, 2), dys = wild_floats(5000, 3);
  for_each_shape([&](const std::string& target, size_t count, size_t offset) {
    const OffsetFloats x(xs, count, offset), up(ups, count, (offset + 1) % 4);
    for (size_t f = 0; f < std::size(unary); ++f) {
      OffsetFloats dy(dys, count, (offset + 2) % 4), want(count, 0);
      unary[f].first(x.data(), dy.data(), want.data(), count);
      unary[f].second(x.data(), dy.data(), dy.data(), count);  // in place
      ASSERT_EQ(first_difference(want.data(), dy.data(), count), count) << target << " function " << f;
    }
    for (size_t f = 0; f < std::size(gated); ++f) {
      OffsetFloats dy(dys, count, (offset + 2) % 4), want_gate(count, 0), want_up(count, 0), got(count, 3);
      gated[f].first(x.data(), up.data(), dy.data(), want_gate.data(), want_up.data(), count);
      gated[f].second(x.data(), up.data(), dy.data(), got.data(), dy.data(), count);
      ASSERT_EQ(first_difference(want_gate.data(), got.data(), count), count) << target << " gated " << f;
      ASSERT_EQ(first_difference(want_up.data(), dy.data(), count), count) << target << " gated " << f;
    }
  });
}

}  // namespace
}  // namespace butterfly::kernels
