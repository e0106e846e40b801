// Activations over arrays: hand values, then every target against the plain loops, bit for bit.
#include "kernels/elementwise/activation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/testing/shape_sweep.h"

namespace butterfly::kernels {
namespace {

TEST(Activation, HandValues) {
  const float x[] = {-1, 2}, up[] = {3, 5};
  float out[2];
  ref::relu(x, out, 2);
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[1], 2);
  ref::silu(x, out, 2);
  EXPECT_NEAR(out[0], -0.26894142, 1e-7);
  EXPECT_NEAR(out[1], 1.76159416, 2e-7);
  ref::gelu(x, out, 2);
  EXPECT_NEAR(out[0], -0.15880801, 1e-7);
  EXPECT_NEAR(out[1], 1.95459769, 2e-7);
  ref::gelu_erf(x, out, 2);
  EXPECT_NEAR(out[0], -0.15865525, 1e-7);
  EXPECT_NEAR(out[1], 1.95449974, 2e-7);
  ref::sigmoid(x, out, 2);
  EXPECT_NEAR(out[0], 0.26894142, 1e-7);
  ref::tanh(x, out, 2);
  EXPECT_NEAR(out[1], 0.96402758, 1e-7);
  ref::swiglu(x, up, out, 2);
  EXPECT_NEAR(out[0], -0.80682426, 3e-7);
  EXPECT_NEAR(out[1], 8.8079708, 1e-6);
  ref::geglu(x, up, out, 2);
  EXPECT_NEAR(out[1], 9.77298845, 1e-6);
  // Gates above 7 count as 7, values beyond 7 as 7: 7 * sigmoid(11.914) * 8, -1 * sigmoid(-1.702) * -6.
  const float gates[] = {9.0f, -1.0f}, ups[] = {100.0f, -30.0f};
  ref::swiglu_clamped(gates, ups, out, 2);
  EXPECT_NEAR(out[0], 55.999626, 1e-5);
  EXPECT_NEAR(out[1], 0.9252254, 1e-6);
  const float nan = NAN;
  ref::relu(&nan, out, 1);
  EXPECT_TRUE(std::isnan(out[0]));
}

using Unary = void (*)(const float*, float*, size_t);
using Gated = void (*)(const float*, const float*, float*, size_t);

template <class Call>
void expect_same(const char* name, Call fast, Call plain) {
  const auto a_values = wild_floats(5000, 1), b_values = wild_floats(5000, 2);
  for_each_shape([&](const std::string& target, size_t count, size_t offset) {
    OffsetFloats a(a_values, count, offset), want(count, 0), got(count, (offset + 2) % 4);
    const OffsetFloats b(b_values, count, (offset + 1) % 4);
    const auto call = [&](Call f, float* out) {
      if constexpr (std::is_same_v<Call, Unary>) {
        f(a.data(), out, count);
      } else {
        f(a.data(), b.data(), out, count);
      }
    };
    call(plain, want.data());
    call(fast, got.data());
    ASSERT_EQ(first_difference(want.data(), got.data(), count), count) << name << " on " << target;
    call(fast, a.data());
    ASSERT_EQ(first_difference(want.data(), a.data(), count), count) << name << " in place on " << target;
  });
}

TEST(Activation, EveryTargetIsThePlainLoop) {
  expect_same<Unary>("relu", relu, ref::relu);
  expect_same<Unary>("sigmoid", sigmoid, ref::sigmoid);
  expect_same<Unary>("tanh", tanh, ref::tanh);
  expect_same<Unary>("silu", silu, ref::silu);
  expect_same<Unary>("gelu", gelu, ref::gelu);
  expect_same<Unary>("gelu_erf", gelu_erf, ref::gelu_erf);
  expect_same<Gated>("swiglu", swiglu, ref::swiglu);
  expect_same<Gated>("geglu", geglu, ref::geglu);
  expect_same<Gated>("swiglu_clamped", swiglu_clamped, ref::swiglu_clamped);
}

}  // namespace
}  // namespace butterfly::kernels
