// Scans of rows: hand values for the plain loops, then every target against them.
#include "kernels/rows/row_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/testing/shape_sweep.h"

namespace butterfly::kernels {
namespace {

using ::testing::ElementsAre;

TEST(RowScan, HandValues) {
  const float row[] = {1, 5, -3, 2, 2, -INFINITY, -7};
  float maxima[3];
  EXPECT_TRUE(ref::block_maxima(row, 7, 3, maxima));
  EXPECT_THAT(maxima, ElementsAre(5, 2, -7));
  const float holes[] = {NAN, 4, NAN, NAN};
  EXPECT_FALSE(ref::block_maxima(holes, 4, 2, maxima));
  EXPECT_EQ(maxima[0], 4);
  EXPECT_EQ(maxima[1], -INFINITY);
  float values[7];
  int32_t indices[7];
  ASSERT_EQ(ref::collect_between(row, 7, 100, 1, 5, values, indices), 3u);
  EXPECT_THAT(std::vector(values, values + 3), ElementsAre(1, 2, 2));
  EXPECT_THAT(std::vector(indices, indices + 3), ElementsAre(100, 103, 104));
  const uint64_t allowed = 0b0010011;
  ref::keep_allowed(row, 7, &allowed, values);
  EXPECT_THAT(values, ElementsAre(1, 5, -INFINITY, -INFINITY, 2, -INFINITY, -INFINITY));
}

TEST(RowScan, EveryTargetIsThePlainLoop) {
  for_each_shape([&](const std::string& target, size_t count, size_t offset) {
    for (const auto& values : {random_floats(count + 1, count), wild_floats(count + 1, 3 + count)}) {
      const OffsetFloats row(values, count, offset);
      for (const size_t block : {1, 7, 32, 256}) {
        const size_t blocks = (count + block - 1) / block;
        OffsetFloats want(blocks, 0), got(blocks, offset);
        ASSERT_EQ(ref::block_maxima(row.data(), count, block, want.data()),
                  block_maxima(row.data(), count, block, got.data()))
            << target;
        ASSERT_EQ(first_difference(want.data(), got.data(), blocks), blocks) << target << " " << block;
      }
      std::vector<uint64_t> allowed((count + 63) / 64);
      for (size_t i = 0; i < allowed.size(); ++i) allowed[i] = random_u64(4, count, i);
      OffsetFloats want_kept(count, 0), got_kept(count, offset);
      ref::keep_allowed(row.data(), count, allowed.data(), want_kept.data());
      keep_allowed(row.data(), count, allowed.data(), got_kept.data());
      ASSERT_EQ(first_difference(want_kept.data(), got_kept.data(), count), count) << target;
      for (const auto& [least, below] : {std::pair(-INFINITY, INFINITY), std::pair(0.0f, 1.0f),
                                         std::pair(0.5f, 0.5f), std::pair(9.0f, INFINITY)}) {
        OffsetFloats want(count, 0), got(count, offset);
        std::vector<int32_t> want_at(count), got_at(count);
        const size_t found =
            ref::collect_between(row.data(), count, 7, least, below, want.data(), want_at.data());
        ASSERT_EQ(collect_between(row.data(), count, 7, least, below, got.data(), got_at.data()), found)
            << target;
        ASSERT_EQ(first_difference(want.data(), got.data(), found), found) << target;
        want_at.resize(found), got_at.resize(found);
        ASSERT_EQ(want_at, got_at) << target;
      }
    }
  });
}

}  // namespace
}  // namespace butterfly::kernels
