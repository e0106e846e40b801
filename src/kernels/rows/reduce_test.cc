// Reductions: hand values, accuracy, then every target against the plain loops, bit for bit.
#include "kernels/rows/reduce.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/testing/shape_sweep.h"

namespace butterfly::kernels {
namespace {

TEST(Reduce, HandValues) {
  const float a[] = {1, 2, 3}, b[] = {4, -5, 6};
  EXPECT_EQ(ref::dot(a, b, 3), 12);
  EXPECT_EQ(ref::dot(a, b, 0), 0);
  EXPECT_EQ(ref::sum(a, 3), 6);
  EXPECT_EQ(ref::sum_squares(b, 3), 77);
  EXPECT_EQ(ref::max_value(b, 3), 6);
  EXPECT_EQ(ref::max_value(b, 0), -INFINITY);
  EXPECT_EQ(ref::argmax(b, 3), 2u);
}

// Elements 0 and 32 share a lane, 0 and 1 meet only in the tree's last step: which sums cancel shows the
// order.
TEST(Reduce, LanesAndTreeAreAsStated) {
  std::vector<float> x(64, 0.0f);
  x[0] = 1e8f;
  x[1] = 1;
  x[32] = -1e8f;
  EXPECT_EQ(ref::sum(x.data(), 64), 1);
  std::swap(x[32], x[33]);
  EXPECT_EQ(ref::sum(x.data(), 64), 0) << "-1e8 swallows the 1 in lane 1";
  std::swap(x[33], x[17]);
  EXPECT_EQ(ref::sum(x.data(), 64), 0) << "lane 1 meets lane 17 first";
  std::swap(x[17], x[16]);
  EXPECT_EQ(ref::sum(x.data(), 64), 1) << "lane 0 meets lane 16 first";
}

TEST(Reduce, SumsAreAccurate) {
  const auto a = random_floats(100000, 4), b = random_floats(100000, 5);
  long double want = 0, magnitude = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    want += static_cast<long double>(a[i]) * b[i];
    magnitude += std::fabs(static_cast<long double>(a[i]) * b[i]);
  }
  EXPECT_NEAR(ref::dot(a.data(), b.data(), a.size()), static_cast<double>(want),
              1e-5 * static_cast<double>(magnitude));
}

TEST(Reduce, EveryTargetIsThePlainLoop) {
  const auto a_values = random_floats(5000, 6, 3.0f), b_values = random_floats(5000, 7);
  for_each_shape([&](const std::string& target, size_t count, size_t offset) {
    const OffsetFloats a(a_values, count, offset), b(b_values, count, (offset + 1) % 4);
    const auto where = [&] { return target + ", count " + std::to_string(count); };
    ASSERT_TRUE(same_bits(dot(a.data(), b.data(), count), ref::dot(a.data(), b.data(), count))) << where();
    ASSERT_TRUE(same_bits(sum(a.data(), count), ref::sum(a.data(), count))) << where();
    ASSERT_TRUE(same_bits(sum_squares(a.data(), count), ref::sum_squares(a.data(), count))) << where();
    ASSERT_TRUE(same_bits(max_value(a.data(), count), ref::max_value(a.data(), count))) << where();
    ASSERT_EQ(argmax(a.data(), count), ref::argmax(a.data(), count)) << where();
  });
}

TEST(Reduce, WildValuesAgreeToo) {
  for_each_shape([&](const std::string& target, size_t count, size_t offset) {
    const OffsetFloats a(wild_floats(count + 1, 8 + count), count, offset);
    ASSERT_TRUE(same_bits(sum(a.data(), count), ref::sum(a.data(), count))) << target;
    ASSERT_TRUE(same_bits(max_value(a.data(), count), ref::max_value(a.data(), count))) << target;
    ASSERT_EQ(argmax(a.data(), count), ref::argmax(a.data(), count)) << target;
  });
}

TEST(Reduce, LargestValueRules) {
  for_each_target([&](const std::string& target) {
    std::vector<float> x(70, -INFINITY);
    EXPECT_EQ(max_value(x.data(), 70), -INFINITY) << target;
    EXPECT_EQ(argmax(x.data(), 70), 0u) << target;
    x[3] = NAN;
    x[40] = x[69] = 5;
    EXPECT_EQ(max_value(x.data(), 70), 5) << target;
    EXPECT_EQ(argmax(x.data(), 70), 40u) << target << ": the lowest index wins";
    EXPECT_EQ(argmax(x.data() + 41, 29), 28u) << target;
    std::fill(x.begin(), x.end(), NAN);
    EXPECT_EQ(max_value(x.data(), 70), -INFINITY) << target;
    EXPECT_EQ(argmax(x.data(), 70), 0u) << target;
    std::fill(x.begin(), x.end(), -0.0f);
    EXPECT_FALSE(std::signbit(max_value(x.data(), 70))) << target;
    // Negative values only: the zeros behind a partial vector must not win.
    std::fill(x.begin(), x.end(), -2.0f);
    EXPECT_EQ(max_value(x.data(), 3), -2) << target;
    EXPECT_EQ(argmax(x.data(), 0), 0u) << target;
  });
}

}  // namespace
}  // namespace butterfly::kernels
