// Clusters too large to search whole: the plan keeps all rules, and the bound shows that it is near the best.
#include <gtest/gtest.h>

#include "cluster/partition/bounds.h"
#include "cluster/partition/partitioner.h"
#include "cluster/partition/subset_search.h"
#include "cluster/testing/random_problem.h"

namespace butterfly::cluster {
namespace {

struct LargeCase {
  size_t nodes;
  double memory_factor;
};

class LargeCluster : public ::testing::TestWithParam<LargeCase> {};

// 96 blocks of a gigabyte, as a model of 175B has them in four bits.
TEST_P(LargeCluster, GapIsSmallAndNobodyIsBetter) {
  for (uint64_t seed = 1; seed <= 4; ++seed)
    for (const Objective objective : {Objective::kLatency, Objective::kThroughput}) {
      const testing::RandomProblemShape shape{.nodes = GetParam().nodes,
                                              .pieces = 98,
                                              .memory_factor = GetParam().memory_factor,
                                              .step_bytes = 1e9};
      const Problem problem(testing::random_pieces(shape, seed), testing::random_cluster(shape, seed),
                            {.objective = objective});
      const auto best = make_plan(problem, find_strategy("optimal"));
      ASSERT_TRUE(best.ok()) << best.status().text();
      EXPECT_LE(best->gap, 0.02) << "seed " << seed << ", objective " << static_cast<int>(objective);
      RecordProperty(
          "gap_" + std::to_string(seed) + (objective == Objective::kLatency ? "_latency" : "_throughput"),
          std::to_string(best->gap));
      for (const char* name : {"annealing", "balanced", "uniform"}) {
        const auto other = make_plan(problem, find_strategy(name));
        if (!other) continue;
        EXPECT_LE(best->objective_s, other->objective_s * (1 + 1e-9)) << name << ", seed " << seed;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Sizes, LargeCluster,
                         ::testing::Values(LargeCase{16, 1.5}, LargeCase{16, 4}, LargeCase{40, 3},
                                           LargeCase{100, 3}, LargeCase{100, 10}));

// Near nodes share layers, and groups form the chain: never slower than single nodes, never below the bound,
// and within seconds.
TEST(LargeCluster, GroupsOnFastLinks) {
  for (const size_t nodes : {size_t{14}, size_t{40}, size_t{100}})
    for (const double memory : {1.5, 10.0})
      for (const Objective objective : {Objective::kLatency, Objective::kThroughput}) {
        const testing::RandomProblemShape shape{
            .nodes = nodes, .pieces = 98, .memory_factor = memory, .step_bytes = 2e7};
        ClusterSpec cluster = testing::random_cluster(shape, 3);
        // Switches of eight machines each, with slower lines between them.
        cluster.connect_all({3e-4, 1.2e8});
        for (size_t a = 0; a < nodes; ++a)
          for (size_t b = 0; b < nodes; ++b)
            if (a != b && a / 8 == b / 8) cluster.link(a, b) = {2e-5, 1.2e9};
        const PieceList pieces = testing::random_pieces(shape, 3);
        const auto single =
            make_plan(Problem(pieces, cluster, {.objective = objective}), find_strategy("optimal"));
        const Problem problem(pieces, cluster, {.objective = objective, .group_size_max = 8});
        const auto grouped = make_plan(problem, find_strategy("optimal"));
        ASSERT_TRUE(single.ok() && grouped.ok());
        EXPECT_LE(grouped->objective_s, single->objective_s * (1 + 1e-9));
        EXPECT_GE(grouped->objective_s, grouped->lower_bound_s * (1 - 1e-9));
        RecordProperty("gap_" + std::to_string(nodes) + "_" + std::to_string(memory),
                       std::to_string(grouped->gap));
        if (objective != Objective::kLatency) continue;
        EXPECT_LT(grouped->objective_s, 0.7 * single->objective_s) << nodes;
        for (const Stage& stage : grouped->plan.stages)
          for (size_t node : stage.nodes)
            EXPECT_EQ(node / 8, stage.nodes[0] / 8) << "a group over two switches";
      }
}

// The way of large clusters, on clusters small enough to know the truth: orders, bound and reduction may not
// lie.
TEST(LargeCluster, BoundsNeverPassTheTruth) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const auto shape = testing::random_shape(seed, 12, 60);
    const Problem problem(testing::random_pieces(shape, seed), testing::random_cluster(shape, seed), {});
    std::vector<size_t> units(problem.nodes());
    for (size_t i = 0; i < units.size(); ++i) units[i] = i;
    const SubsetResult truth = SubsetSearch(problem, units).run();
    const LatencyBound bound = bound_latency(problem, units, kNever, true);
    if (!(truth.latency_s < kNever)) continue;
    EXPECT_LE(bound.seconds, truth.latency_s * (1 + 1e-9)) << seed;
    for (size_t i = 0; i < units.size(); ++i)
      EXPECT_LE(bound.with_s[i], truth.latency_with_s[i] * (1 + 1e-9)) << seed << ", node " << i;
  }
}

}  // namespace
}  // namespace butterfly::cluster
