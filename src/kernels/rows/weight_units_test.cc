// Weights of logits: hand values, sums that do not depend on the order, then every target against the plain
// loops.
#include "kernels/rows/weight_units.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/math/math.h"
#include "kernels/testing/shape_sweep.h"

namespace butterfly::kernels {
namespace {

constexpr uint64_t kOne = uint64_t{1} << kWeightUnitBits;

TEST(WeightUnits, HandValues) {
  EXPECT_EQ(weight_units(0), 0u);
  EXPECT_EQ(weight_units(1), kOne);
  EXPECT_EQ(weight_units(0.375f), kOne / 8 * 3);
  const float unit = std::ldexp(1.0f, -kWeightUnitBits);
  EXPECT_EQ(weight_units(unit), 1u);
  EXPECT_EQ(weight_units(unit * 0.5f), 0u);  // halves to even
  EXPECT_EQ(weight_units(unit * 1.5f), 2u);
  EXPECT_EQ(weight_units(unit * 2.5f), 2u);
  EXPECT_EQ(weight_units(unit * 0.50001f), 1u);
  const float logits[] = {3, 3, -INFINITY, 3 - 2 * std::log(2.0f)};
  EXPECT_EQ(ref::sum_units(logits, 3, -INFINITY, {3, 1}), 2 * kOne);
  EXPECT_EQ(ref::sum_units(logits, 4, 3, {3, 1}), 2 * kOne);
  float weights[4];
  ref::weigh_logits(logits, 4, {3, 2}, weights);
  EXPECT_EQ(weights[0], 1);
  EXPECT_EQ(weights[2], 0);
  EXPECT_NEAR(weights[3], 0.5, 1e-7);
}

TEST(WeightUnits, AsManyAsThereMayBeFit) {
  EXPECT_EQ((kWeightCountMax - 1) * kOne / kOne, kWeightCountMax - 1);
}

std::vector<float> logits_below(std::vector<float> from, float largest) {
  for (size_t i = 0; i < from.size(); ++i) from[i] = i % 17 == 3 ? -INFINITY : std::min(from[i], largest);
  return from;
}

TEST(WeightUnits, EveryTargetIsThePlainLoop) {
  for_each_shape([&](const std::string& target, size_t count, size_t offset) {
    for (const float temperature : {1.0f, 0.8f, 30.0f, 0x1p-149f, 3e38f}) {
      const WeightScale scale{2.5f, temperature};
      const OffsetFloats row(logits_below(random_floats(count + 1, count, 6.0f), 2.5f), count, offset);
      OffsetFloats want(count, 0), got(count, offset);
      ref::weigh_logits(row.data(), count, scale, want.data());
      weigh_logits(row.data(), count, scale, got.data());
      ASSERT_EQ(first_difference(want.data(), got.data(), count), count) << target << " " << temperature;
      for (const float least : {-INFINITY, -4.0f, 2.5f}) {
        uint64_t sum = 0;
        for (size_t i = count; i-- > 0;)
          if (row.data()[i] >= least) sum += weight_units(want.data()[i]);
        ASSERT_EQ(ref::sum_units(row.data(), count, least, scale), sum);
        ASSERT_EQ(sum_units(row.data(), count, least, scale), sum) << target << " " << temperature;
      }
      for (const size_t block : {1, 7, 32, 256}) {
        std::vector<uint64_t> want_sums((count + block - 1) / block), got_sums(want_sums.size());
        ref::sum_unit_blocks(row.data(), count, block, scale, want_sums.data());
        sum_unit_blocks(row.data(), count, block, scale, got_sums.data());
        ASSERT_EQ(want_sums, got_sums) << target << " " << temperature;
      }
    }
  });
}

}  // namespace
}  // namespace butterfly::kernels
