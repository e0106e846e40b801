// Softmax and soft cap: hand values, accuracy, edge rows, then every target against the plain loops, bit for
// bit.
#include "kernels/rows/softmax.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/testing/shape_sweep.h"

namespace butterfly::kernels {
namespace {

TEST(Softmax, HandValues) {
  float row[] = {0, std::log(2.0f), std::log(5.0f)};
  ref::softmax(row, 3);
  EXPECT_NEAR(row[0], 0.125, 1e-7);
  EXPECT_NEAR(row[1], 0.25, 1e-7);
  EXPECT_NEAR(row[2], 0.625, 1e-7);
  float caps[] = {0, 50, -1e30f};
  ref::soft_cap(caps, 50, 3);
  EXPECT_EQ(caps[0], 0);
  EXPECT_NEAR(caps[1], 50 * std::tanh(1.0), 1e-5);
  EXPECT_EQ(caps[2], -50);
}

TEST(Softmax, IsAccurate) {
  auto row = random_floats(5000, 1, 10.0f);
  std::vector<long double> want(row.size());
  long double total = 0;
  for (size_t i = 0; i < row.size(); ++i) total += want[i] = std::exp(static_cast<long double>(row[i]));
  ref::softmax(row.data(), row.size());
  for (size_t i = 0; i < row.size(); ++i) {
    const auto expected = static_cast<double>(want[i] / total);
    ASSERT_NEAR(row[i], expected, 4e-6 * expected);
  }
}

TEST(Softmax, EveryTargetIsThePlainLoop) {
  const auto tame = random_floats(5000, 2, 20.0f);
  for_each_shape([&](const std::string& target, size_t count, size_t offset) {
    for (const auto& values : {tame, wild_floats(count + 1, 3 + count)}) {
      OffsetFloats want(values, count, 0), got(values, count, offset);
      ref::softmax(want.data(), count);
      softmax(got.data(), count);
      ASSERT_EQ(first_difference(want.data(), got.data(), count), count) << target;
      OffsetFloats want_cap(values, count, 0), got_cap(values, count, offset);
      ref::soft_cap(want_cap.data(), 30, count);
      soft_cap(got_cap.data(), 30, count);
      ASSERT_EQ(first_difference(want_cap.data(), got_cap.data(), count), count) << target;
    }
  });
}

TEST(Softmax, MaskedAndBrokenRows) {
  for_each_target([&](const std::string& target) {
    std::vector<float> row(37, -INFINITY);
    softmax(row.data(), row.size());
    for (float x : row) EXPECT_EQ(x, 0) << target;
    row.assign(37, -INFINITY);
    row[20] = -3e38f;
    softmax(row.data(), row.size());
    for (size_t i = 0; i < row.size(); ++i) EXPECT_EQ(row[i], i == 20 ? 1 : 0) << target;
    for (float bad : {NAN, INFINITY}) {
      row.assign(37, 1.0f);
      row[5] = bad;
      softmax(row.data(), row.size());
      for (float x : row) EXPECT_TRUE(std::isnan(x)) << target;
    }
    // Far apart, but no overflow and no 0/0.
    float wide[] = {1e30f, -1e30f};
    softmax(wide, 2);
    EXPECT_EQ(wide[0], 1) << target;
    EXPECT_EQ(wide[1], 0) << target;
  });
}

}  // namespace
}  // namespace butterfly::kernels
