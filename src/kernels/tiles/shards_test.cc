// The rule of logical shards: hand values, then every number of columns and every run of shards.
#include "kernels/tiles/shards.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "kernels/quant/quant.h"

namespace butterfly::kernels {
namespace {

std::vector<size_t> begins(const Shards& shards) {
  std::vector<size_t> all;
  for (size_t i = 0; i <= shards.count(); ++i) all.push_back(shards.begin(i));
  return all;
}

TEST(Shards, HandValues) {
  using Begins = std::vector<size_t>;
  EXPECT_EQ(begins(Shards(256, 5632)), (Begins{0, 512, 1280, 2048, 2816, 3328, 4096, 4864, 5632}));
  EXPECT_EQ(begins(Shards(64, 512)), (Begins{0, 64, 128, 192, 256, 320, 384, 448, 512}));
  EXPECT_EQ(begins(Shards(256, 768)), (Begins{0, 256, 768}));  // three units: two shards
  EXPECT_EQ(begins(Shards(64, 100)), (Begins{0, 64, 100}));    // the last unit has what is left
  EXPECT_EQ(begins(Shards(64, 64)), (Begins{0, 64}));
  EXPECT_EQ(begins(Shards(64, 0)), (Begins{0, 0}));
}

TEST(Shards, UnitsAreTheBlockOfActivations) {
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ5_1,
                     DType::kIQ4_NL, DType::kMXFP4})
    EXPECT_EQ(shard_unit(type), 64u) << dtype_name(type);
  for (DType type : {DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kIQ4_XS})
    EXPECT_EQ(shard_unit(type), 256u) << dtype_name(type);
  for (const QuantType& type : quant_table())  // a cut never goes through a block
    EXPECT_EQ(shard_unit(type.dtype) % dtype_info(type.dtype).block_values, 0u) << dtype_name(type.dtype);
}

TEST(Shards, EveryNumberOfColumnsIsCutAsTheRuleSays) {
  for (size_t unit : {64, 256})
    for (size_t cols = 1; cols <= 40 * unit; cols += unit == 64 ? 1 : 32) {
      const size_t units = (cols + unit - 1) / unit;
      const Shards shards(unit, cols);
      ASSERT_TRUE(std::has_single_bit(shards.count()) && shards.count() <= kShardsMax);
      ASSERT_LE(shards.count(), units);
      ASSERT_TRUE(shards.count() == kShardsMax || units < 2 * shards.count()) << cols;
      ASSERT_EQ(shards.begin(0), 0u);
      ASSERT_EQ(shards.begin(shards.count()), cols);
      for (size_t i = 0; i < shards.count(); ++i) {
        ASSERT_EQ(shards.begin(i), i * units / shards.count() * unit);
        ASSERT_LT(shards.begin(i), shards.begin(i + 1)) << cols;  // none is empty
      }
    }
}

TEST(Shards, SubtreesAreWholeMaximalAndFew) {
  EXPECT_EQ(subtrees(0, 8), (std::vector<Subtree>{{0, 8}}));
  EXPECT_EQ(subtrees(1, 7), (std::vector<Subtree>{{1, 1}, {2, 2}, {4, 2}, {6, 1}}));
  EXPECT_EQ(subtrees(0, 7), (std::vector<Subtree>{{0, 4}, {4, 2}, {6, 1}}));
  EXPECT_EQ(subtrees(3, 3), std::vector<Subtree>{});
  for (size_t first = 0; first < kShardsMax; ++first)
    for (size_t last = first + 1; last <= kShardsMax; ++last) {
      const auto found = subtrees(first, last);
      EXPECT_LE(found.size(), kSubtreesMax);
      size_t next = first;
      for (const Subtree& subtree : found) {
        EXPECT_EQ(subtree.first, next);
        EXPECT_TRUE(std::has_single_bit(subtree.count) && subtree.first % subtree.count == 0);
        // The subtree above it is not whole.
        const size_t above = 2 * subtree.count, start = subtree.first / above * above;
        EXPECT_TRUE(start < first || start + above > last || above > kShardsMax);
        next += subtree.count;
      }
      EXPECT_EQ(next, last);
    }
}

TEST(Shards, CutsOfAShareAreThoseOfTheLayer) {
  for (size_t cols : {64, 640, 1000, 5632}) {
    const Shards shards(64, cols);
    for (size_t first = 0; first < shards.count(); ++first)
      for (size_t last = first + 1; last <= shards.count(); ++last) {
        const ShardCuts cuts = ShardCuts::share(shards, first, last);
        ASSERT_EQ(cuts.shard_count(), last - first);
        ASSERT_EQ(cuts.cols(), shards.begin(last) - shards.begin(first));
        const auto owned = subtrees(first, last);
        ASSERT_EQ(cuts.subtree_count, owned.size());
        size_t walked = first;
        for (ShardWalk walk(cuts); walk; walk.next(), ++walked) {
          ASSERT_EQ(walk.begin() + shards.begin(first), shards.begin(walked));
          ASSERT_EQ(walk.end() + shards.begin(first), shards.begin(walked + 1));
          ASSERT_EQ(owned[walk.subtree()].first + walk.shard(), walked);
          ASSERT_EQ(owned[walk.subtree()].count, walk.shards());
          ASSERT_EQ(walk.last(), walk.shard() + 1 == walk.shards());
        }
        ASSERT_EQ(walked, last);
      }
  }
}

TEST(Shards, OneChainIsOneShard) {
  const ShardCuts cuts = ShardCuts::none(77);
  ShardWalk walk(cuts);
  EXPECT_TRUE(walk && walk.last());
  EXPECT_EQ(walk.begin(), 0u);
  EXPECT_EQ(walk.end(), 77u);
  walk.next();
  EXPECT_FALSE(walk);
}

TEST(Shards, TheTreeIsPerfect) {
  // One and a large number: who meets whom shows.
  std::vector<float> sums = {1e8f, 1, -1e8f, 1};
  EXPECT_EQ(ref::shard_tree(sums), 0.0f);
  sums = {1e8f, -1e8f, 1, 1};
  EXPECT_EQ(ref::shard_tree(sums), 2.0f);
  sums = {1, 1, 1, 1, 1e8f, 0, 0, 0};  // 4 + 1e8; one by one each 1 would be lost
  EXPECT_EQ(ref::shard_tree(sums), 1e8f);
  sums = {4, 4, 4, 4, 1e8f, 0, 0, 0};
  EXPECT_EQ(ref::shard_tree(sums), 1e8f + 16);
  sums = {-0.0f};
  EXPECT_TRUE(std::signbit(ref::shard_tree(sums)));
  sums = {-std::bit_cast<float>(0x7fc12345u), 1};
  EXPECT_EQ(std::bit_cast<uint32_t>(ref::shard_tree(sums)), kTreeNan);
}

}  // namespace
}  // namespace butterfly::kernels
