// The balance function in a closed loop with the simulator: slow nodes are relieved, noise moves nothing, a
// node that comes and goes does not make the plan flap.
#include "cluster/balance/rebalance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/rng.h"
#include "cluster/partition/partitioner.h"
#include "cluster/sim/sim_cluster.h"
#include "cluster/sim/simulator.h"
#include "cluster/testing/random_problem.h"

namespace butterfly::cluster {
namespace {

using testing::unit_node;

constexpr double kEpoch_s = 10;  // between two measurements

// Four nodes of 10 GB/s with room for half of 40 pieces each.
Problem four_nodes(Objective objective) {
  PieceList list{.model = "m", .pieces = {}, .decode_in_bytes = 8, .prompt = 64};
  for (int i = 0; i < 40; ++i) {
    Piece piece{.name = "p"};
    piece.decode.weight_bytes = piece.prefill.weight_bytes = 1e8;
    piece.weight_bytes = 100'000'000;
    piece.decode_out_bytes = 16384;
    list.pieces.push_back(piece);
  }
  ClusterSpec cluster;
  for (const char* name : {"a", "b", "c", "d"}) {
    cluster.nodes.push_back(unit_node(name, 1e10));
    cluster.nodes.back().ram_bytes = 2'000'000'000;
    cluster.nodes.back().disk = 5e8;
  }
  cluster.connect_all({2e-4, 1.2e8});
  return Problem(list, cluster, {.objective = objective});
}

struct Loop {
  size_t moves = 0;
  std::vector<size_t> moved_at;      // epochs
  std::vector<double> tokens_per_s;  // by epoch
  Plan plan;
};

// Plays `epochs`, with every node slower by truth(epoch, node). Step times come out of the simulator; idle
// nodes are probed.
Loop play(const Problem& problem, size_t epochs, const std::function<double(size_t, size_t)>& truth) {
  Loop loop;
  loop.plan = make_plan(problem, find_strategy("optimal"))->plan;
  BalanceState state;
  for (size_t epoch = 0; epoch < epochs; ++epoch) {
    std::vector<double> slowness;
    for (size_t node = 0; node < problem.nodes(); ++node) slowness.push_back(truth(epoch, node));
    const Problem world = slowed(problem, slowness);
    Workload w;
    w.clients = w.requests = 8;
    w.generate_min = w.generate_max = 20;
    const SimReport report = simulate(sim_cluster(world, loop.plan), w);
    loop.tokens_per_s.push_back(report.tokens_per_s);

    BalanceMeasurement measured{.now_s = static_cast<double>(epoch) * kEpoch_s, .slowness = {}};
    for (double s : slowness) measured.slowness.push_back(s);  // the probe's figure of idle nodes
    const Prediction predicted = predict(problem, loop.plan);
    for (size_t i = 0; i < loop.plan.stages.size(); ++i)
      measured.slowness[loop.plan.stages[i].nodes[0]] =
          report.stages[i].busy_s / static_cast<double>(report.stages[i].steps) / predicted.stages[i].seconds;
    const BalanceDecision decision = rebalance(problem, loop.plan, measured, state);
    EXPECT_FALSE(decision.reason.empty());
    state = decision.state;
    if (!decision.move) continue;
    EXPECT_LT(decision.planned_s, decision.current_s);
    EXPECT_GT(decision.net_gain_s, 0);
    loop.plan = decision.plan;
    loop.moved_at.push_back(epoch);
    ++loop.moves;
  }
  return loop;
}

double noise(size_t epoch, size_t node, double deviation) {
  return std::exp(deviation * random_normal(3, node, epoch));
}

TEST(Rebalance, RelievesASlowNodeAndComesBack) {
  for (const Objective objective : {Objective::kThroughput, Objective::kLatency}) {
    const Problem problem = four_nodes(objective);
    const Plan healthy = make_plan(problem, find_strategy("optimal"))->plan;
    const size_t slow = healthy.stages[0].nodes[0];
    const Loop loop = play(problem, 200, [&](size_t epoch, size_t node) {
      return (node == slow && epoch >= 20 && epoch < 120 ? 10 : 1) * noise(epoch, node, 0.05);
    });
    ASSERT_GE(loop.moves, 1u);
    EXPECT_GE(loop.moved_at[0], 20u + 3);  // the median of six turns with the fourth
    EXPECT_LE(loop.moved_at[0], 20u + 7);
    std::vector<double> slowness(4, 1);
    slowness[slow] = 10;
    const Problem limping = slowed(problem, slowness);
    const auto best = make_plan(limping, find_strategy("optimal"));
    if (objective == Objective::kThroughput) {
      EXPECT_LE(loop.moves, 3u);
      EXPECT_GT(loop.moved_at.back(), 120u);
      // While it is slow: nearly all of the speed the cluster then has. Afterwards: all of it again.
      EXPECT_GT(loop.tokens_per_s[115], 0.85 * best->prediction.tokens_per_s);
      EXPECT_GT(loop.tokens_per_s[115], 2 * loop.tokens_per_s[21]);
      EXPECT_GT(loop.tokens_per_s[199], 0.85 * loop.tokens_per_s[10]);
    } else {
      // Two of the three others hold everything: no reason to come back to the fourth.
      EXPECT_EQ(loop.moves, 1u);
      for (const Stage& stage : loop.plan.stages) EXPECT_NE(stage.nodes[0], slow);
    }
  }
}

TEST(Rebalance, NoiseMovesNothing) {
  for (double deviation : {0.05, 0.15, 0.25}) {
    const Loop loop = play(four_nodes(Objective::kThroughput), 300,
                           [&](size_t epoch, size_t node) { return noise(epoch, node, deviation); });
    EXPECT_EQ(loop.moves, 0u) << deviation;
  }
}

TEST(Rebalance, OneSlowMeasurementMovesNothing) {
  const Loop loop = play(four_nodes(Objective::kThroughput), 100,
                         [](size_t epoch, size_t node) { return node == 1 && epoch % 20 == 7 ? 10.0 : 1.0; });
  EXPECT_EQ(loop.moves, 0u);
}

// Slow for 150 s, well for 150 s, again and again: each move makes the next one wait longer.
TEST(Rebalance, ComingAndGoingDoesNotFlap) {
  const Loop loop = play(four_nodes(Objective::kThroughput), 600, [](size_t epoch, size_t node) {
    return node == 2 && epoch / 15 % 2 == 1 ? 10.0 : 1.0;
  });
  EXPECT_GE(loop.moves, 1u);
  EXPECT_LE(loop.moves, 8u);  // of 40 changes
}

TEST(Rebalance, AMoveThatCostsMoreThanItEarnsIsNotMade) {
  const Problem problem = four_nodes(Objective::kThroughput);
  const Plan plan = make_plan(problem, find_strategy("optimal"))->plan;
  BalanceMeasurement measured{.now_s = 0, .slowness = {1.3, 1.0, 1.0, 1.0}};
  BalanceState state;
  BalanceOptions impatient;
  impatient.horizon_s = 1;
  impatient.confirmations = 1;
  const BalanceDecision decision = rebalance(problem, plan, measured, state, impatient);
  EXPECT_FALSE(decision.move);
  EXPECT_LT(decision.net_gain_s, 0);
  EXPECT_THAT(decision.reason, ::testing::HasSubstr("but moving takes"));
  EXPECT_EQ(decision.plan, plan);
}

TEST(Rebalance, MovingIsTheSlowestNodesLoading) {
  const Problem problem = four_nodes(Objective::kThroughput);
  const Plan from{{{{0}, 0, 20, {1.0}}, {{1}, 20, 40, {1.0}}}},
      to{{{{0}, 0, 15, {1.0}}, {{1}, 15, 35, {1.0}}, {{2}, 35, 40, {1.0}}}};
  EXPECT_DOUBLE_EQ(moving_seconds(problem, from, from), 0);
  EXPECT_DOUBLE_EQ(moving_seconds(problem, from, to), 5 * 1e8 / 5e8);
}

}  // namespace
}  // namespace butterfly::cluster
