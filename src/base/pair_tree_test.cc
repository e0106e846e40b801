#include "base/pair_tree.h"

#include <gtest/gtest.h>

namespace butterfly {
namespace {

TEST(PairTree, SubtreesAreTheLargestThatARangeHolds) {
  using Nodes = std::vector<PairNode>;
  EXPECT_EQ(PairTree(8).subtrees({0, 8}), (Nodes{{3, 0}}));
  EXPECT_EQ(PairTree(8).subtrees({0, 3}), (Nodes{{1, 0}, {0, 2}}));
  EXPECT_EQ(PairTree(8).subtrees({3, 8}), (Nodes{{0, 3}, {2, 1}}));
  EXPECT_EQ(PairTree(1).subtrees({0, 1}), (Nodes{{0, 0}}));
  EXPECT_EQ(PairTree(8).subtrees({5, 5}), Nodes{});
  // The last one of an odd number moves up alone: it is as high as its neighbour will be.
  EXPECT_EQ(PairTree(5).subtrees({4, 5}), (Nodes{{2, 1}}));
  EXPECT_EQ(PairTree(5).subtrees({0, 5}), (Nodes{{3, 0}}));
}

// Whoever has which leaves: their subtrees cover each leaf once, and pairs of them lead to the root.
TEST(PairTree, SubtreesOfCutsCoverTheTree) {
  for (size_t leaves = 1; leaves <= 20; ++leaves)
    for (size_t a = 0; a <= leaves; ++a)
      for (size_t b = a; b <= leaves; ++b) {
        const PairTree tree(leaves);
        size_t at = 0;
        for (const LeafRange& range : {LeafRange{0, a}, LeafRange{a, b}, LeafRange{b, leaves}})
          for (const PairNode node : tree.subtrees(range)) {
            EXPECT_EQ(tree.range(node).begin, at);
            EXPECT_TRUE(range.contains(tree.range(node)));
            at = tree.range(node).end;
          }
        EXPECT_EQ(at, leaves);
      }
}

TEST(PairTree, LevelsCutTheTreeIntoParts) {
  using Nodes = std::vector<PairNode>;
  EXPECT_EQ(PairTree(8).subtrees({0, 8}, 2), (Nodes{{2, 0}, {2, 1}}));
  EXPECT_EQ(PairTree(5).subtrees({0, 5}, 1), (Nodes{{1, 0}, {1, 1}, {1, 2}}));
  EXPECT_EQ(PairTree(5).count(0), 5u);
  EXPECT_EQ(PairTree(5).count(1), 3u);
  EXPECT_EQ(PairTree(5).count(3), 1u);
  EXPECT_EQ(PairTree(5).level_of_at_most(9), 0u);
  EXPECT_EQ(PairTree(5).level_of_at_most(4), 1u);
  EXPECT_EQ(PairTree(5).level_of_at_most(1), 3u);
  for (size_t leaves = 1; leaves <= 40; ++leaves)
    for (size_t nodes = 1; nodes <= 10; ++nodes) {
      const PairTree tree(leaves);
      const uint32_t level = tree.level_of_at_most(nodes);
      EXPECT_EQ(tree.subtrees({0, leaves}, level).size(), tree.count(level));
      EXPECT_LE(tree.count(level), nodes);
      // The number of parts gives the same parts.
      EXPECT_EQ(tree.level_of_at_most(tree.count(level)), level);
    }
}

TEST(PairTree, NodesThatDoNotExistHaveNoLeaves) {
  EXPECT_FALSE(PairTree(5).exists({0, 5}));
  EXPECT_FALSE(PairTree(5).exists({2, 2}));
  EXPECT_FALSE(PairTree(5).exists({1000, 0}));
  EXPECT_FALSE(PairTree(5).exists({40, UINT32_MAX}));
  EXPECT_TRUE(PairTree(5).is_root({3, 0}));
  EXPECT_FALSE(PairTree(5).is_root({2, 0}));
}

}  // namespace
}  // namespace butterfly
