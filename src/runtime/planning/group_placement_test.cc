// Who gets which part of layers that several nodes share.
#include "runtime/planning/group_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "base/rng.h"

namespace butterfly::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(GroupChoice, IsOffAutoOrANumber) {
  EXPECT_EQ(parse_groups("--groups", "off"), GroupChoice{});
  EXPECT_EQ(parse_groups("--groups", "auto"), (GroupChoice{4, false}));
  EXPECT_EQ(parse_groups("--groups", "3"), (GroupChoice{3, true}));
  for (const char* wrong : {"", "1", "9", "on", "2x", "-2"}) {
    try {
      parse_groups("--groups", wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("expected off, auto or a number from 2 to 8"));
    }
  }
}

std::vector<uint32_t> share(std::vector<double> seconds, std::vector<uint32_t> most) {
  return share_units(seconds, most, kGroupUnits);
}

TEST(ShareUnits, GoBySpeedWithinMemory) {
  EXPECT_THAT(share({1, 1}, {8, 8}), ElementsAre(4, 4));
  EXPECT_THAT(share({1, 3}, {8, 8}), ElementsAre(6, 2));
  EXPECT_THAT(share({1, 100}, {8, 8}), ElementsAre(8, 0)) << "who is far too slow gets nothing";
  EXPECT_THAT(share({1, 3}, {3, 8}), ElementsAre(3, 5)) << "the fast one has no room for more";
  EXPECT_THAT(share({1, 1}, {3, 4}), ElementsAre()) << "one unit is left over";
}

// No other division has an earlier end.
TEST(ShareUnits, AreTheBestThereAre) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<double> seconds;
    std::vector<uint32_t> most;
    for (uint64_t i = 0; i < 3; ++i) {
      seconds.push_back(1 + static_cast<double>(random_u64(seed, 1, i) % 50));
      most.push_back(static_cast<uint32_t>(random_u64(seed, 2, i) % 9));
    }
    const auto end = [&](const std::vector<uint32_t>& units) {
      double slowest = 0;
      for (size_t i = 0; i < units.size(); ++i) slowest = std::max(slowest, units[i] * seconds[i]);
      return slowest;
    };
    double best = -1;
    for (uint32_t a = 0; a <= std::min(8u, most[0]); ++a)
      for (uint32_t b = 0; a + b <= 8 && b <= most[1]; ++b)
        if (8 - a - b <= most[2])
          best = best < 0 ? end({a, b, 8 - a - b}) : std::min(best, end({a, b, 8 - a - b}));
    const auto units = share(seconds, most);
    EXPECT_EQ(units.empty() ? -1 : end(units), best) << seed;
  }
}

cluster::PlanNode node(const std::string& name) {
  cluster::PlanNode node;
  node.id = {name, name};
  return node;
}

struct Group {
  explicit Group(std::vector<double> speeds, uint64_t ram = 1 << 30, double latency_s = 1e-4) {
    for (size_t i = 0; i < speeds.size(); ++i) {
      nodes.push_back(node("n" + std::to_string(i)));
      cluster::NodeSpec spec;
      spec.name = nodes.back().id.name;
      spec.memory = {1e9 * speeds[i], 1e9 * speeds[i]};
      spec.f32 = spec.int8 = {1e12, 1e12};
      spec.ram_bytes = ram;
      cluster.nodes.push_back(spec);
    }
    cluster.connect_all({.latency_s = latency_s, .bandwidth = 1e9});
    for (size_t i = 0; i < 10; ++i) {
      cluster::Piece piece;
      piece.name = "piece";
      piece.decode.weight_bytes = 1e7;
      piece.weight_bytes = 10'000'000;
      piece.exchanges = 2;
      piece.decode_sum_bytes = 8192;
      list.pieces.push_back(piece);
    }
  }
  std::optional<cluster::Placement> plan(const GroupChoice& choice, size_t self = 0,
                                         std::vector<std::pair<std::string, std::string>> broken = {}) const {
    return group_placement(cluster::Problem(list, cluster, {}), nodes, self, choice, broken);
  }
  std::vector<cluster::PlanNode> nodes;
  cluster::ClusterSpec cluster;
  cluster::PieceList list;
};

std::vector<std::string> names(const cluster::Placement& placement) {
  std::vector<std::string> names;
  for (const auto& member : placement.stages[0].members) names.push_back(member.node.name);
  return names;
}

TEST(GroupPlacement, BeginsWithTheCoordinatorAndIsWhole) {
  const auto placement = Group({1, 2, 4}).plan({3, true}, 1);
  ASSERT_TRUE(placement);
  EXPECT_EQ(cluster::why_not_whole(*placement), "");
  EXPECT_THAT(names(*placement), ElementsAre("n1", "n2", "n0"));
  EXPECT_EQ(placement->stages.size(), 1u);
  EXPECT_GT(placement->stages[0].members[1].share.of(cluster::ShareKind::kHeads).end -
                placement->stages[0].members[1].share.of(cluster::ShareKind::kHeads).begin,
            3u);
}

TEST(GroupPlacement, TakesNoMoreThanPay) {
  EXPECT_THAT(names(Group({4, 4, 0.01}).plan({4, false}).value()), ElementsAre("n0", "n1"));
  const auto slow_links = Group({4, 4}, 1 << 30, 1.0).plan({4, false});
  ASSERT_TRUE(slow_links) << "whether it pays at all, who asks compares";
  EXPECT_LT(slow_links->tokens_per_s, 0.1);
}

TEST(GroupPlacement, GoesAroundPairsThatCannotReachEachOther) {
  const Group group({1, 1, 1});
  EXPECT_THAT(names(group.plan({3, true}, 0, {{"n1", "n0"}}).value()), ElementsAre("n0", "n2"));
  EXPECT_THAT(names(group.plan({3, true}, 0, {{"n1", "n2"}}).value()), ElementsAre("n0", "n1"));
  EXPECT_FALSE(group.plan({3, true}, 0, {{"n1", "n0"}, {"n0", "n2"}}));
}

TEST(GroupPlacement, SharesMemoryToo) {
  EXPECT_FALSE(Group({1, 1}, 40'000'000).plan({2, true})) << "100 MB, two times 40";
  const auto tight = Group({8, 1}, 70'000'000).plan({2, true});
  ASSERT_TRUE(tight);
  for (const auto& member : tight->stages[0].members) EXPECT_LE(member.memory_bytes, 70'000'000u);
}

}  // namespace
}  // namespace butterfly::runtime
