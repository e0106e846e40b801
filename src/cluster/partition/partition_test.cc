// All strategies on random clusters: what every plan must keep, and `optimal` against every plan there is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "base/error.h"
#include "cluster/partition/bounds.h"
#include "cluster/partition/partitioner.h"
#include "cluster/testing/brute_force.h"
#include "cluster/testing/random_problem.h"

namespace butterfly::cluster {
namespace {

using testing::brute_force;
using testing::random_cluster;
using testing::random_pieces;
using testing::random_shape;
using testing::unit_node;

constexpr double kTolerance = 1e-9;  // relative: sums in another order

PlanOptions random_options(uint64_t kind) {
  PlanOptions options;
  options.annealing_steps = 4000;
  if (kind % 2 == 1) options.objective = Objective::kThroughput;
  if (kind % 4 == 3) options.batches_in_flight = 1 + kind / 4 % 5;
  if (kind / 8 % 3 == 1) options.prefill_weight = 1.0 / 64;
  return options;
}

Problem random_problem(uint64_t seed, uint64_t kind, size_t nodes_max, size_t pieces_max) {
  const auto shape = random_shape(seed, nodes_max, pieces_max);
  return Problem(random_pieces(shape, seed), random_cluster(shape, seed), random_options(kind));
}

RC_GTEST_PROP(Partition, EveryPlanIsWholeContiguousAndFits, ()) {
  const auto seed = *rc::gen::arbitrary<uint64_t>(), kind = *rc::gen::arbitrary<uint64_t>();
  const Problem problem = random_problem(seed, kind, 9, 40);
  const Result<PlannedChain> best = make_plan(problem, find_strategy("optimal"));
  for (const PartitionStrategy& strategy : partition_strategies()) {
    if (strategy.nodes == NodeChoice::kGiven) continue;
    const Result<PlannedChain> planned = make_plan(problem, strategy);
    if (!planned) {
      RC_ASSERT(!planned.status().text().empty());
      continue;
    }
    size_t next = 0;
    std::vector<bool> used(problem.nodes());
    for (const Stage& stage : planned->plan.stages) {
      RC_ASSERT(stage.begin == next);
      RC_ASSERT(stage.end > stage.begin);
      next = stage.end;
      uint64_t bytes = 0;
      for (size_t i = stage.begin; i < stage.end; ++i) bytes += problem.list().pieces[i].memory_bytes();
      RC_ASSERT(stage.nodes.size() == 1u);
      RC_ASSERT(!used[stage.nodes[0]]);
      if (strategy.nodes == NodeChoice::kAll)
        RC_ASSERT(std::find(used.begin() + static_cast<ptrdiff_t>(stage.nodes[0]), used.end(), true) ==
                  used.end());  // in the order of the cluster
      used[stage.nodes[0]] = true;
      RC_ASSERT(bytes <= problem.cluster().nodes[stage.nodes[0]].ram_bytes);
    }
    RC_ASSERT(next == problem.pieces());
    RC_ASSERT(planned->prediction.load_balance > 0 && planned->prediction.load_balance <= 1 + kTolerance);
    // Never better than the best, never below the bound; the same again for the same seed.
    RC_ASSERT(best.ok());
    RC_ASSERT(best->objective_s <= planned->objective_s * (1 + kTolerance));
    RC_ASSERT(planned->lower_bound_s <= best->objective_s * (1 + kTolerance));
    RC_ASSERT(make_plan(problem, strategy)->plan == planned->plan);
  }
}

TEST(PartitionTable, NamesForPeopleComeFromTheRows) {
  EXPECT_EQ(&default_strategy(), &find_strategy("optimal"));
  EXPECT_EQ(first_strategy(NodeChoice::kAll).name, "balanced");
  for (const PartitionStrategy& strategy : partition_strategies()) {
    const bool listed = strategy_names().find(strategy.name) != std::string::npos;
    EXPECT_EQ(listed, strategy.nodes != NodeChoice::kGiven) << strategy.name;
  }
}

RC_GTEST_PROP(Partition, OptimalIsTheBestOfAllPlans, ()) {
  const auto seed = *rc::gen::arbitrary<uint64_t>(), kind = *rc::gen::arbitrary<uint64_t>();
  const Problem problem = random_problem(seed, kind, 6, 10);
  const auto reference = brute_force(problem);
  const Result<PlannedChain> planned = make_plan(problem, find_strategy("optimal"));
  RC_ASSERT(planned.ok() == (reference.objective_s < kNever));
  if (!planned) {
    RC_ASSERT(!(lower_bound(problem) < kNever) || planned.status().code() == Errc::kOutOfMemory);
    return;
  }
  RC_ASSERT(std::abs(planned->objective_s / reference.objective_s - 1) < kTolerance);
  RC_ASSERT(planned->gap < kTolerance);
  RC_ASSERT(lower_bound(problem) <= reference.objective_s * (1 + kTolerance));
}

// A limit between the least latency and that of the fastest pipeline.
RC_GTEST_PROP(Partition, OptimalKeepsALatencyLimit, ()) {
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  const auto percent = *rc::gen::inRange(0, 100);
  const Problem latency = random_problem(seed, 0, 6, 8);
  const auto fastest = brute_force(latency);
  RC_PRE(fastest.objective_s < kNever);
  PlanOptions options{.objective = Objective::kThroughput};
  options.latency_limit_s = fastest.objective_s * (1 + percent * 0.02) * (1 + 1e-12);
  const Problem problem(latency.list(), latency.cluster(), options);
  const auto reference = brute_force(problem);
  const Result<PlannedChain> planned = make_plan(problem, find_strategy("optimal"));
  RC_ASSERT(planned.ok());
  RC_ASSERT(std::abs(planned->objective_s / reference.objective_s - 1) < kTolerance);
  RC_ASSERT(planned->prediction.latency_s <= options.latency_limit_s * (1 + kTolerance));
}

// The way of large clusters (orders, bound, reduction) against the whole search.
RC_GTEST_PROP(Partition, BoundsHoldForEveryNodeAndCap, ()) {
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  const Problem problem = random_problem(seed, 0, 5, 8);
  const auto reference = brute_force(problem);
  RC_PRE(reference.objective_s < kNever);
  std::vector<size_t> units(problem.nodes());
  for (size_t i = 0; i < units.size(); ++i) units[i] = i;
  const LatencyBound bound = bound_latency(problem, units, kNever, true);
  RC_ASSERT(bound.seconds <= reference.objective_s * (1 + kTolerance));
  for (const Stage& stage : reference.plan.stages)
    RC_ASSERT(bound.with_s[stage.nodes[0]] <= reference.objective_s * (1 + kTolerance));
  const double slowest = predict(problem, reference.plan).bottleneck_s;
  RC_ASSERT(may_reach_cap(problem, units, slowest * (1 + kTolerance)));
}

TEST(Partition, OneNodeIsNotSplit) {
  const auto shape = testing::RandomProblemShape{.nodes = 1, .pieces = 12, .memory_factor = 40};
  const Problem problem(random_pieces(shape, 1), random_cluster(shape, 1), {});
  for (const char* name : {"optimal", "balanced", "uniform", "annealing"}) {
    const auto planned = make_plan(problem, find_strategy(name));
    ASSERT_TRUE(planned.ok()) << planned.status().text();
    EXPECT_EQ(planned->plan.stages.size(), 1u) << name;
    EXPECT_EQ(planned->prediction.hops, 0u) << name;
  }
}

TEST(Partition, SaysWhoIsLeftOutAndWhy) {
  PieceList list{.model = "m", .pieces = {}};
  for (int i = 0; i < 10; ++i) {
    Piece piece{.name = "p"};
    piece.decode.weight_bytes = 1e8;
    piece.weight_bytes = 100'000'000;
    piece.decode_out_bytes = 1e4;
    list.pieces.push_back(piece);
  }
  ClusterSpec cluster;
  cluster.nodes = {unit_node("laptop", 1e10), unit_node("pi4", 2e9), unit_node("far", 2e10),
                   unit_node("tiny", 1e9)};
  cluster.connect_all({1e-4, 1e8});
  for (size_t i : {0u, 1u, 3u}) cluster.link(2, i) = cluster.link(i, 2) = {1.0, 1e6};
  cluster.nodes[3].ram_bytes = 1000;
  const Problem problem(list, cluster, {});
  const auto planned = make_plan(problem, find_strategy("optimal"));
  ASSERT_TRUE(planned.ok());
  EXPECT_EQ(planned->plan.stages.size(), 1u);
  using ::testing::HasSubstr;
  using ::testing::StartsWith;
  EXPECT_THAT(planned->reasons,
              ::testing::ElementsAre(
                  HasSubstr("not split"), StartsWith("pi4 left out: 50.0 ms per piece, slower than"),
                  StartsWith("far left out: its link costs more (1010.0 ms a hop) than its compute"),
                  StartsWith("tiny left out: it has 1000 B, the smallest piece needs 95.4 MiB")));
}

TEST(Partition, GroupsAreUsedWhereLinksAreFast) {
  const auto shape =
      testing::RandomProblemShape{.nodes = 4, .pieces = 20, .memory_factor = 40, .step_bytes = 1e9};
  ClusterSpec cluster = random_cluster(shape, 3);
  cluster.connect_all({2e-6, 1.2e10});
  const PieceList pieces = random_pieces(shape, 3);
  const auto alone = make_plan(Problem(pieces, cluster, {}), find_strategy("optimal"));
  const auto grouped = make_plan(Problem(pieces, cluster, {.group_size_max = 4}), find_strategy("optimal"));
  ASSERT_TRUE(alone.ok() && grouped.ok());
  EXPECT_LT(grouped->objective_s, 0.7 * alone->objective_s);
  ASSERT_EQ(grouped->plan.stages.size(), 1u);
  EXPECT_GE(grouped->plan.stages[0].nodes.size(), 3u);
  cluster.connect_all({5e-2, 1e8});
  const auto slow = make_plan(Problem(pieces, cluster, {.group_size_max = 4}), find_strategy("optimal"));
  ASSERT_TRUE(slow.ok());
  for (const Stage& stage : slow->plan.stages) EXPECT_EQ(stage.nodes.size(), 1u);
}

// Larger groups may do all that smaller ones may: nothing is worse for them.
TEST(Partition, LargerGroupsDoNotCrowdOutSmallOnes) {
  const auto shape =
      testing::RandomProblemShape{.nodes = 8, .pieces = 30, .memory_factor = 3, .step_bytes = 1e9};
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const PieceList pieces = random_pieces(shape, seed);
    ClusterSpec cluster = random_cluster(shape, seed);
    cluster.connect_all({1e-4, 1e9});
    const auto best = [&](size_t most) {
      const auto planned = make_plan(
          Problem(pieces, cluster,
                  {.objective = Objective::kThroughput, .batches_in_flight = 8, .group_size_max = most}),
          find_strategy("optimal"));
      return planned ? planned->objective_s : kNever;
    };
    EXPECT_LE(best(4), best(2) * 1.02) << seed;
    EXPECT_LE(best(2), best(1) * 1.0001) << seed;
  }
}

// Every set of members, every order, every cut of the units. The shares of a group are chosen for the whole
// chain and without its hops, so that a plan may be a little worse than the best; few are.
TEST(Partition, GroupsAreTheBestOfAll) {
  size_t planned_count = 0, grouped = 0, best = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    const auto shape = random_shape(seed, 3, 4);
    PieceList pieces = random_pieces(shape, seed);
    pieces.share_units = 4;
    for (Piece& piece : pieces.pieces) {  // equal, but for what the last one gathers
      piece.decode = pieces.pieces.front().decode;
      piece.prefill = pieces.pieces.front().prefill;
      piece.decode_sum_bytes = pieces.pieces.front().decode_sum_bytes;
      piece.prefill_sum_bytes = pieces.pieces.front().prefill_sum_bytes;
    }
    ClusterSpec cluster = random_cluster(shape, seed);
    if (seed % 3 == 0) cluster.connect_all({2e-6, 1.2e10});
    PlanOptions options = random_options(seed / 3);
    options.group_size_max = 2 + seed % 2;
    const Problem problem(std::move(pieces), std::move(cluster), options);
    const auto reference = brute_force(problem);
    const auto planned = make_plan(problem, find_strategy("optimal"));
    ASSERT_EQ(planned.ok(), reference.objective_s < kNever) << seed;
    if (!planned) continue;
    ++planned_count;
    grouped += planned->plan.stages[0].nodes.size() > 1;
    best += planned->objective_s <= reference.objective_s * (1 + kTolerance);
    EXPECT_GE(planned->objective_s, reference.objective_s * (1 - kTolerance)) << seed;
    EXPECT_LE(planned->objective_s, reference.objective_s * 1.06) << seed;
    // What is predicted of the reference's own plan is what it says itself.
    EXPECT_NEAR(objective_seconds(problem, predict(problem, reference.plan)) / reference.objective_s, 1,
                1e-9);
  }
  EXPECT_GT(grouped, planned_count / 8);
  EXPECT_GT(best, planned_count * 98 / 100);
}

TEST(Partition, SharesThatNobodyCanHaveAreRefused) {
  const auto shape = testing::RandomProblemShape{.nodes = 3, .pieces = 12, .memory_factor = 40};
  const Problem problem(random_pieces(shape, 1), random_cluster(shape, 1), {});
  const auto message = [&](std::vector<double> shares) {
    try {
      predict(problem, {{{{0, 1}, 0, 12, std::move(shares)}}});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(message({0.25, 0.75}), "accepted");
  EXPECT_EQ(message({}), "accepted");
  EXPECT_THAT(message({0.3, 0.7}), ::testing::HasSubstr("a share of 0.3, expected whole parts of 1/8"));
  EXPECT_THAT(message({0.25, 0.5}), ::testing::HasSubstr("sum to 0.75"));
  EXPECT_THAT(message({0, 1}), ::testing::HasSubstr("a share of 0"));
  EXPECT_THAT(message({1}), ::testing::HasSubstr("2 nodes and 1 shares"));
}

TEST(Partition, WhoDrawsTokensIsInTheLastStage) {
  const auto shape =
      testing::RandomProblemShape{.nodes = 4, .pieces = 20, .memory_factor = 3, .step_bytes = 1e9};
  for (uint64_t seed = 1; seed < 20; ++seed) {
    ClusterSpec cluster = random_cluster(shape, seed);
    cluster.connect_all({2e-5, 1.2e9});
    const auto planned =
        make_plan(Problem(random_pieces(shape, seed), cluster, {.group_size_max = 3, .last_node = 2}),
                  find_strategy("optimal"));
    if (!planned) continue;
    for (size_t i = 0; i < planned->plan.stages.size(); ++i) {
      const auto& nodes = planned->plan.stages[i].nodes;
      const auto at = std::find(nodes.begin(), nodes.end(), 2u);
      if (at == nodes.end()) continue;
      EXPECT_EQ(at, nodes.begin());
      EXPECT_EQ(i + 1, planned->plan.stages.size());
    }
  }
}

// Links so slow that nobody would share anything, if it were not asked for.
TEST(Partition, GroupsOfTheWantedSizeWhereThereAreEnoughNodes) {
  const auto sizes = [](const Plan& plan) {
    std::vector<size_t> out;
    for (const Stage& stage : plan.stages) out.push_back(stage.nodes.size());
    std::ranges::sort(out);
    return out;
  };
  for (const size_t nodes : {2, 3, 4, 5, 16}) {
    // Every node has room for a piece more than its part: up to five, nobody can be left out.
    const auto shape = testing::RandomProblemShape{.nodes = nodes, .pieces = 40};
    PieceList pieces = random_pieces(shape, 1);
    uint64_t bytes = 0;
    for (Piece& piece : pieces.pieces) {
      piece.weight_bytes = 100;
      piece.kv_bytes = 0;
      bytes += piece.weight_bytes;
    }
    ClusterSpec cluster = random_cluster(shape, 1);
    cluster.connect_all({5e-2, 1e8});
    for (NodeSpec& node : cluster.nodes) node.ram_bytes = bytes / nodes + 100;
    const Problem problem(pieces, cluster,
                          {.group_size_max = 2, .group_size_wanted = 2, .last_node = nodes - 1});
    std::vector<size_t> expected(nodes / 2, 2);
    if (nodes % 2 == 1) expected.insert(expected.begin(), 1);
    for (const char* strategy : {"optimal", "balanced", "uniform"}) {
      const auto planned = make_plan(problem, find_strategy(strategy));
      if (!planned && nodes % 2 == 1 && planned.status().code() == Errc::kOutOfMemory &&
          std::string_view(strategy) == "uniform")
        continue;  // the one that is alone has no room for as much as two
      ASSERT_TRUE(planned.ok()) << nodes << " " << strategy << ": " << planned.status().text();
      if (nodes <= 5) {
        EXPECT_EQ(sizes(planned->plan), expected) << nodes << " " << strategy;
      }
      EXPECT_EQ(sizes(planned->plan).front(), expected.front()) << nodes << " " << strategy;
      EXPECT_LT(planned->objective_s, kUnwanted_s) << "what searches add is no prediction";
      EXPECT_GE(planned->gap, 0) << strategy;
    }
    EXPECT_FALSE(make_plan(problem, find_strategy("annealing")).ok());
  }
}

TEST(Partition, WhatDoesNotFitIsSaidInWords) {
  const auto shape = testing::RandomProblemShape{.nodes = 3, .pieces = 12, .memory_factor = 0.1};
  const Problem problem(random_pieces(shape, 1), random_cluster(shape, 1), {});
  for (const PartitionStrategy& strategy : partition_strategies()) {
    const auto planned = make_plan(problem, strategy);
    ASSERT_FALSE(planned.ok()) << strategy.name;
    EXPECT_THAT(planned.status().text(), ::testing::StartsWith(std::string(strategy.name) + ": "));
  }
}

TEST(Partition, CustomTakesWhatItIsGiven) {
  const auto shape = testing::RandomProblemShape{.nodes = 3, .pieces = 12, .memory_factor = 40};
  PlanOptions options;
  options.custom.stages = {{{2}, 0, 5, {}}, {{0}, 5, 12, {}}};
  const auto planned =
      make_plan(Problem(random_pieces(shape, 1), random_cluster(shape, 1), options), find_strategy("custom"));
  ASSERT_TRUE(planned.ok()) << planned.status().text();
  EXPECT_EQ(planned->plan.stages.size(), 2u);
  EXPECT_EQ(planned->plan.stages[0].nodes[0], 2u);
  options.custom.stages[1].end = 11;
  EXPECT_THROW((void)make_plan(Problem(random_pieces(shape, 1), random_cluster(shape, 1), options),
                               find_strategy("custom")),
               Error);
}

TEST(Partition, UnknownStrategyNamesThose) {
  try {
    find_strategy("best");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("optimal, annealing, balanced, uniform, custom"));
  }
}

}  // namespace
}  // namespace butterfly::cluster
