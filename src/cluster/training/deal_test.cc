#include "cluster/training/deal.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace butterfly::cluster {
namespace {

using Ranges = std::vector<LeafRange>;

TEST(DealLeaves, EqualSpeedsGetEqualRanges) {
  const double one[] = {1}, two[] = {1, 1}, three[] = {5, 5, 5};
  EXPECT_EQ(deal_leaves(8, one), (Ranges{{0, 8}}));
  EXPECT_EQ(deal_leaves(8, two), (Ranges{{0, 4}, {4, 8}}));
  EXPECT_EQ(deal_leaves(6, three), (Ranges{{0, 2}, {2, 4}, {4, 6}}));
  EXPECT_EQ(deal_leaves(1, three), (Ranges{{0, 1}, {1, 1}, {1, 1}}));
}

TEST(DealLeaves, FollowsTheSpeeds) {
  const double speeds[] = {3, 1};
  EXPECT_EQ(deal_leaves(8, speeds), (Ranges{{0, 6}, {6, 8}}));
  const double far_apart[] = {100, 1};
  EXPECT_EQ(deal_leaves(8, far_apart), (Ranges{{0, 8}, {8, 8}}));
}

// 100 leaves, 3 nodes: 34, 33, 33 would be 3 + 4 + 4 subtrees; 32, 36, 32 are fewer and hardly longer.
TEST(DealLeaves, SendsFewerSubtreesWhereThatCostsLittle) {
  const double speeds[] = {1, 1, 1};
  const PairTree tree(96);
  size_t subtrees = 0;
  for (const LeafRange& range : deal_leaves(96, speeds)) subtrees += tree.subtrees(range).size();
  EXPECT_EQ(subtrees, 3u);
}

TEST(DealLeaves, CoversAllLeavesOnceAndIsNearTheShortestTime) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const size_t leaves = 1 + random_u64(seed, 0, 0) % 100, nodes = 1 + random_u64(seed, 0, 1) % 12;
    std::vector<double> speeds;
    double sum = 0;
    for (size_t i = 0; i < nodes; ++i) {
      speeds.push_back(0.1 + static_cast<double>(random_u64(seed, 1, i) % 1000) / 100);
      sum += speeds.back();
    }
    size_t at = 0;
    double longest = 0, slowest_unit = 0;
    const Ranges ranges = deal_leaves(leaves, speeds);
    ASSERT_EQ(ranges.size(), nodes);
    for (size_t i = 0; i < nodes; ++i) {
      EXPECT_EQ(ranges[i].begin, at);
      at = ranges[i].end;
      longest = std::max(longest, static_cast<double>(ranges[i].size()) / speeds[i]);
      if (!ranges[i].empty()) slowest_unit = std::max(slowest_unit, 1 / speeds[i]);
    }
    EXPECT_EQ(at, leaves);
    EXPECT_LE(longest, 1.05 * (static_cast<double>(leaves) / sum + slowest_unit)) << seed;
  }
}

TEST(CutBlocks, InProportionToBandwidth) {
  const std::vector<uint64_t> blocks(12, 100);
  const double equal[] = {1, 1, 1}, unequal[] = {4, 1, 1};
  EXPECT_EQ(cut_blocks(blocks, equal, 100), (std::vector<size_t>{4, 8, 12}));
  EXPECT_EQ(cut_blocks(blocks, unequal, 100), (std::vector<size_t>{8, 10, 12}));
}

TEST(CutBlocks, SmallModelsHaveOneOwner) {
  const std::vector<uint64_t> blocks(4, 100);
  const double three[] = {1, 1, 1};
  EXPECT_EQ(cut_blocks(blocks, three, 1000), (std::vector<size_t>{4, 4, 4}));
  EXPECT_EQ(cut_blocks(blocks, three, 200), (std::vector<size_t>{2, 4, 4}));
  const std::vector<uint64_t> uneven{10, 1000};
  EXPECT_EQ(cut_blocks(uneven, three, 100), (std::vector<size_t>{1, 2, 2}));
  EXPECT_EQ(cut_blocks({}, three, 100), (std::vector<size_t>{0, 0, 0}));
}

}  // namespace
}  // namespace butterfly::cluster
