#include "cluster/cost/group.h"

#include <gmock/gmock.h>

#include "cluster/testing/random_problem.h"
#include "kernels/tiles/shards.h"

namespace butterfly::cluster {
namespace {

using ::testing::ElementsAre;
using testing::unit_node;

TEST(Group, SubtreesAreThoseOfTheKernels) {
  for (size_t begin = 0; begin <= kernels::kShardsMax; ++begin)
    for (size_t end = begin; end <= kernels::kShardsMax; ++end)
      EXPECT_EQ(subtree_count(begin, end), kernels::subtrees(begin, end).size()) << begin << " " << end;
}

ClusterSpec three_nodes() {
  ClusterSpec cluster;
  cluster.nodes = {unit_node("a"), unit_node("b", 2), unit_node("c")};
  cluster.connect_all({0.5, 100});
  cluster.link(0, 2).latency_s = 2;
  cluster.link(2, 1).bandwidth = 10;
  return cluster;
}

TEST(Group, WireIsThatOfTheSlowestMember) {
  const size_t nodes[] = {0, 1, 2}, units[] = {2, 4, 2};
  const GroupWire wire = group_wire(three_nodes(), nodes, units);
  EXPECT_DOUBLE_EQ(wire.latency_s, 2);
  // b owns [2, 6), two subtrees; c sends its one to b over the slow line: b receives 1/100 + 1/10 a byte.
  EXPECT_DOUBLE_EQ(wire.sum_s_per_byte, 0.11);
  EXPECT_DOUBLE_EQ(wire.spread_s_per_byte, 0.25 / 100 + 0.25 / 10);  // b receives from a and c
  EXPECT_DOUBLE_EQ(wire.gather_latency_s, 0.5);
  EXPECT_DOUBLE_EQ(wire.gather_s_per_byte, 0.5 / 100 + 0.25 / 100);
  EXPECT_DOUBLE_EQ(wire.seconds({.exchanges = 2, .sum_bytes = 100}), 2 * 2 + 11);
  // A third of that, then a third of the results, of which b receives as much.
  EXPECT_DOUBLE_EQ(wire.seconds({.long_exchanges = 2, .long_sum_bytes = 300}), 2 * 2 * 2 + 11 + 11);
  const size_t two[] = {1, 2}, halves[] = {4, 4};
  const GroupWire pair = group_wire(three_nodes(), two, halves);
  EXPECT_DOUBLE_EQ(pair.seconds({.long_exchanges = 2, .long_sum_bytes = 300}),
                   pair.seconds({.exchanges = 2, .sum_bytes = 300}));
}

TEST(Group, SharesFollowSpeedAndWholeSubtreesWhereTheWireIsSlow) {
  ClusterSpec cluster = three_nodes();
  cluster.connect_all({0, 1e6});
  GroupWork work{.decode_s = {8, 5, 8},
                 .prefill_s = {0, 0, 0},
                 .decode_whole_s = {0, 0, 0},
                 .prefill_whole_s = {0, 0, 0},
                 .exchanged = {.exchanges = 2, .sum_bytes = 0}};
  const size_t two[] = {0, 1};
  EXPECT_THAT(group_shares(cluster, two, 8, work, 0)[0].units, ElementsAre(3, 5));
  // A sum of 5e5 bytes: the second subtree of 3 and 5 costs more than what an even split does.
  work.exchanged.sum_bytes = 5e6;
  EXPECT_THAT(group_shares(cluster, two, 8, work, 0)[0].units, ElementsAre(4, 4));
}

TEST(Group, MoreRoomIsOfferedWhereItIsNeeded) {
  ClusterSpec cluster = three_nodes();
  cluster.connect_all({0, 1e9});
  cluster.nodes[1].ram_bytes = 100;
  cluster.nodes[0].ram_bytes = 700;
  const GroupWork work{.decode_s = {8, 5, 8},
                       .prefill_s = {0, 0, 0},
                       .decode_whole_s = {0, 0, 0},
                       .prefill_whole_s = {0, 0, 0},
                       .exchanged = {.exchanges = 2, .sum_bytes = 1}};
  const size_t two[] = {0, 1};
  const auto shares = group_shares(cluster, two, 8, work, 800, 0);
  ASSERT_GE(shares.size(), 2u);
  EXPECT_THAT(shares.front().units, ElementsAre(3, 5));
  EXPECT_THAT(shares.back().units, ElementsAre(7, 1));
  EXPECT_EQ(shares.back().room_bytes, 800u);
  for (size_t i = 1; i < shares.size(); ++i) {
    EXPECT_GT(shares[i].seconds, shares[i - 1].seconds);
    EXPECT_GT(shares[i].room_bytes, shares[i - 1].room_bytes);
  }
  // Where all fits, one way is enough.
  EXPECT_EQ(group_shares(cluster, two, 8, work, 100, 0).size(), 1u);
}

TEST(Group, TheFirstMemberStaysFirst) {
  const GroupWork work{.decode_s = {8, 4, 8},
                       .prefill_s = {0, 0, 0},
                       .decode_whole_s = {0, 0, 0},
                       .prefill_whole_s = {0, 0, 0},
                       .exchanged = {.exchanges = 0, .sum_bytes = 0}};
  const size_t nodes[] = {0, 1, 2};
  for (const GroupShare& share : group_shares(three_nodes(), nodes, 8, work, 1000, 1))
    EXPECT_EQ(share.nodes[0], 1u);
}

TEST(Group, NobodyHasLessThanAUnit) {
  ClusterSpec cluster = three_nodes();
  const GroupWork work{.decode_s = {1, 1, 1},
                       .prefill_s = {0, 0, 0},
                       .decode_whole_s = {0, 0, 0},
                       .prefill_whole_s = {0, 0, 0},
                       .exchanged = {.exchanges = 0, .sum_bytes = 0}};
  const size_t nodes[] = {0, 1, 2};
  EXPECT_TRUE(group_shares(cluster, nodes, 2, work, 0).empty());
}

}  // namespace
}  // namespace butterfly::cluster
