// Elementwise kernels: hand values, then every target against the plain loops, bit for bit.
#include "kernels/elementwise/elementwise.h"

#include <gtest/gtest.h>

#include "kernels/testing/shape_sweep.h"

namespace butterfly::kernels {
namespace {

TEST(Elementwise, HandValues) {
  const float a[] = {1, 2, 3}, b[] = {10, -20, 0.5f};
  float out[3];
  ref::add(a, b, out, 3);
  EXPECT_EQ(out[1], -18);
  ref::sub(a, b, out, 3);
  EXPECT_EQ(out[1], 22);
  ref::mul(a, b, out, 3);
  EXPECT_EQ(out[2], 1.5f);
  ref::scale(a, -2, out, 3);
  EXPECT_EQ(out[2], -6);
  // One rounding: (1 + 2^-23) * (1 - 2^-23) - 1 is -2^-46, which a rounded product would lose.
  const float minus_one = -1, almost = 1 + 0x1p-23f;
  ref::add_scaled(&minus_one, &almost, 1 - 0x1p-23f, out, 1);
  EXPECT_EQ(out[0], -0x1p-46f);
}

using Binary = void (*)(const float*, const float*, float*, size_t);

void expect_binary(const char* name, Binary fast, Binary plain) {
  const auto a_values = wild_floats(5000, 1), b_values = wild_floats(5000, 2);
  for_each_shape([&](const std::string& target, size_t count, size_t offset) {
    const OffsetFloats a(a_values, count, offset), b(b_values, count, (offset + 1) % 4);
    OffsetFloats want(count, 0), got(count, (offset + 2) % 4);
    plain(a.data(), b.data(), want.data(), count);
    fast(a.data(), b.data(), got.data(), count);
    ASSERT_EQ(first_difference(want.data(), got.data(), count), count)
        << name << " on " << target << ", " << offset;
    OffsetFloats in_place(a_values, count, offset);
    fast(in_place.data(), b.data(), in_place.data(), count);
    ASSERT_EQ(first_difference(want.data(), in_place.data(), count), count)
        << name << " in place on " << target;
  });
}

TEST(Elementwise, EveryTargetIsThePlainLoop) {
  expect_binary("add", add, ref::add);
  expect_binary("sub", sub, ref::sub);
  expect_binary("mul", mul, ref::mul);
  expect_binary(
      "scale", [](const float* a, const float*, float* out, size_t n) { scale(a, 1.7f, out, n); },
      [](const float* a, const float*, float* out, size_t n) { ref::scale(a, 1.7f, out, n); });
  expect_binary(
      "add_scaled",
      [](const float* a, const float* b, float* out, size_t n) { add_scaled(a, b, -0.3f, out, n); },
      [](const float* a, const float* b, float* out, size_t n) { ref::add_scaled(a, b, -0.3f, out, n); });
}

// Large results take the path around the caches, with its own head and tail.
TEST(Elementwise, LargeResultsAreTheSame) {
  const size_t count = (size_t{33} << 20) / sizeof(float) + 5;
  const auto values = wild_floats(4096, 3);
  const OffsetFloats a(values, count, 1), b(values, count, 2);
  std::vector<float> want(count);
  ref::add(a.data(), b.data(), want.data(), count);
  for_each_target([&](const std::string& target) {
    for (size_t offset : {0, 3}) {
      OffsetFloats got(count, offset);
      add(a.data(), b.data(), got.data(), count);
      ASSERT_EQ(first_difference(want.data(), got.data(), count), count) << target;
    }
  });
}

}  // namespace
}  // namespace butterfly::kernels
