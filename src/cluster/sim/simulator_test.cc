// The simulator against closed forms (within 1 %), and what failures and slow-downs must do.
#include "cluster/sim/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "cluster/cost/prediction.h"
#include "cluster/partition/partitioner.h"
#include "cluster/sim/sim_cluster.h"
#include "cluster/testing/random_problem.h"

namespace butterfly::cluster {
namespace {

// Stages that take this long per step, whatever the rows; free links.
SimCluster stages_of(std::vector<double> seconds) {
  SimCluster cluster;
  for (double s : seconds) {
    SimPieces pieces;
    pieces.weight_s = s;
    cluster.stages.push_back({"stage", {pieces}});
  }
  cluster.links.resize(seconds.size() + 1);
  return cluster;
}

Workload closed(size_t clients, size_t requests, size_t tokens) {
  Workload w;
  w.clients = clients;
  w.requests = requests;
  w.generate_min = w.generate_max = tokens;
  return w;
}

TEST(Simulator, OneStageOneStream) {
  const SimReport report = simulate(stages_of({0.01}), closed(1, 10, 100));
  EXPECT_NEAR(report.end_s, 10 * 100 * 0.01, 1e-9);
  EXPECT_NEAR(report.tokens_per_s, 100, 1e-6);
  EXPECT_NEAR(report.token_s.mean, 0.01, 1e-9);
  EXPECT_NEAR(report.first_token_s.max, 0.01, 1e-9);
  EXPECT_NEAR(report.stages[0].utilisation, 1, 1e-9);
  EXPECT_NEAR(report.stages[0].idle_s, 0, 1e-6);
}

// Arrivals at random, one token each: M/D/1. Mean wait = rho s / (2 (1 - rho)).
TEST(Simulator, OneStageRandomArrivals) {
  for (double load : {0.3, 0.5, 0.8}) {
    Workload w = closed(0, 600'000, 1);
    w.rate = load / 0.01;
    w.seed = 5;
    const SimReport report = simulate(stages_of({0.01}), w);
    EXPECT_NEAR(report.request_s.mean, 0.01 + load * 0.01 / (2 * (1 - load)), 0.01 * report.request_s.mean)
        << load;
    EXPECT_NEAR(report.stages[0].utilisation, load, 0.01 * load);
  }
}

// Two stages of 10 and 4 ms: n streams give min(n / 14 ms, 1 / 10 ms).
TEST(Simulator, TwoStages) {
  for (size_t streams : {1, 2, 5}) {
    const SimReport report = simulate(stages_of({0.01, 0.004}), closed(streams, 50 * streams, 50));
    const double expected = std::min(static_cast<double>(streams) / 0.014, 1 / 0.01);
    EXPECT_NEAR(report.tokens_per_s, expected, 0.01 * expected) << streams;
    EXPECT_NEAR(report.stages[1].utilisation, expected * 0.004, 0.01 * expected * 0.004);
    EXPECT_NEAR(report.stages[0].busy_s + report.stages[0].idle_s, report.end_s, 1e-6);
  }
}

// 2 MB per step over 100 MB/s is 20 ms: the link and not the stages sets the pace.
TEST(Simulator, SaturatedLink) {
  SimCluster cluster = stages_of({0.01, 0.004});
  cluster.links[1] = {.latency_s = 0.003, .bandwidth = 1e8, .decode_row_bytes = 2e6, .prefill_row_bytes = 0};
  const SimReport many = simulate(cluster, closed(8, 400, 50));
  EXPECT_NEAR(many.tokens_per_s, 50, 0.5);
  EXPECT_NEAR(many.links[1].utilisation, 1, 0.01);
  const SimReport one = simulate(cluster, closed(1, 20, 50));
  EXPECT_NEAR(one.token_s.mean, 0.01 + 0.003 + 0.02 + 0.004, 1e-9);
}

TEST(Simulator, BatchesShareAStep) {
  Workload w = closed(8, 64, 50);
  w.batch_max = 8;
  EXPECT_NEAR(simulate(stages_of({0.01}), w).tokens_per_s, 800, 8);
  SimCluster rows = stages_of({0.01});
  rows.stages[0].pieces[0].decode_compute_s =
      0.004;  // eight rows: 32 ms of arithmetic hide the 10 ms of reading
  EXPECT_NEAR(simulate(rows, w).tokens_per_s, 250, 2.5);
}

TEST(Simulator, PromptsRunInParts) {
  SimCluster cluster = stages_of({0.01});
  cluster.stages[0].pieces[0].prefill_compute_s = 0.001;
  Workload w = closed(1, 10, 3);
  w.prompt_min = w.prompt_max = 100;
  w.rows_max = 64;
  const SimReport report = simulate(cluster, w);
  EXPECT_NEAR(report.first_token_s.mean, 0.064 + 0.036, 1e-9);
  EXPECT_NEAR(report.request_s.mean, 0.1 + 2 * 0.01, 1e-9);
  EXPECT_EQ(report.tokens, 30u);
}

TEST(Simulator, SlowDownsStretchWhatRuns) {
  Workload w = closed(1, 1, 10);
  w.slowdowns = {{.stage = 0, .from_s = 0.25, .to_s = 0.45, .factor = 10}};
  // Ten steps of 0.1 s; 0.2 s at a tenth of the speed do 0.02 s of work.
  EXPECT_NEAR(simulate(stages_of({0.1}), w).end_s, 1.0 + 0.18, 1e-9);
}

TEST(Simulator, FailuresCostRecoveryAndTheStepTheyHit) {
  Workload w = closed(1, 1, 10);
  w.failures = {{.stage = 0, .at_s = 0.25, .recovery_s = 2, .replay = false}};
  const SimReport report = simulate(stages_of({0.1}), w);
  EXPECT_NEAR(report.end_s, 1.0 + 2 + 0.05, 1e-9);
  EXPECT_EQ(report.steps_lost, 1u);
  EXPECT_NEAR(report.stages[0].down_s, 2, 1e-9);
  EXPECT_NEAR(report.stages[0].idle_s, 0, 1e-9);
  EXPECT_EQ(report.tokens, 10u);
  // Rebuilding: three rows were in the cache, one of them of the step that was hit.
  SimCluster cluster = stages_of({0.1});
  cluster.stages[0].pieces[0].prefill_compute_s = 0.1;
  w.failures[0].replay = true;
  EXPECT_NEAR(simulate(cluster, w).end_s, 1.0 + 2 + 0.05 + 0.3, 1e-9);
}

TEST(Simulator, LimitsStreamsAndDependsOnTheSeedAlone) {
  Workload w = closed(0, 2000, 8);
  w.rate = 12;
  w.prompt_min = 10;
  w.prompt_max = 200;
  w.generate_max = 40;
  w.batch_max = 4;
  w.streams_max = 4;
  SimCluster cluster = stages_of({0.01, 0.005});
  cluster.stages[0].pieces[0].prefill_compute_s = 1e-4;
  const SimReport a = simulate(cluster, w), b = simulate(cluster, w);
  EXPECT_EQ(a.end_s, b.end_s);
  EXPECT_EQ(a.events, b.events);
  EXPECT_EQ(a.request_s.p99, b.request_s.p99);
  w.seed = 2;
  EXPECT_NE(simulate(cluster, w).end_s, a.end_s);
  EXPECT_LE(a.first_token_s.p50, a.first_token_s.p95);
  EXPECT_LE(a.first_token_s.p95, a.first_token_s.max);
}

// A plan's prediction is what the simulator measures: one stream, and a full pipeline.
TEST(Simulator, AgreesWithPredictions) {
  for (uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    const auto shape =
        testing::RandomProblemShape{.nodes = 5, .pieces = 30, .memory_factor = 2, .step_bytes = 3e7};
    for (const Objective objective : {Objective::kLatency, Objective::kThroughput}) {
      const Problem problem(testing::random_pieces(shape, seed), testing::random_cluster(shape, seed),
                            {.objective = objective});
      const auto planned = make_plan(problem, find_strategy("optimal"));
      if (!planned) continue;
      const SimCluster cluster = sim_cluster(problem, planned->plan);
      const Prediction& p = planned->prediction;
      const SimReport one = simulate(cluster, closed(1, 20, 50));
      EXPECT_NEAR(one.token_s.mean, p.latency_s, 1e-6 * p.latency_s) << seed;
      const auto streams = static_cast<size_t>(2 * p.streams_to_fill) + 2;
      const SimReport full = simulate(cluster, closed(streams, 20 * streams, 100));
      EXPECT_NEAR(full.tokens_per_s, p.tokens_per_s, 0.01 * p.tokens_per_s) << seed;
    }
  }
}

TEST(Simulator, KeepsIntervalsForPictures) {
  const SimReport report = simulate(stages_of({0.01, 0.02}), closed(2, 2, 10), {.intervals_max = 7});
  EXPECT_EQ(report.intervals.size(), 7u);
  for (const SimInterval& i : report.intervals)
    EXPECT_NEAR(i.to_s - i.from_s, i.stage == 0 ? 0.01 : 0.02, 1e-9);
}

TEST(Simulator, PercentilesByNearestRank) {
  std::vector<double> values;
  for (int i = 100; i > 0; --i) values.push_back(i);
  const Percentiles p = percentiles_of(values);
  EXPECT_EQ(p.p50, 50);
  EXPECT_EQ(p.p95, 95);
  EXPECT_EQ(p.p99, 99);
  EXPECT_EQ(p.max, 100);
  EXPECT_EQ(p.mean, 50.5);
  EXPECT_EQ(percentiles_of({}).max, 0);
}

TEST(Simulator, RefusesWhatNeverEnds) {
  const SimCluster cluster = stages_of({0.1});
  EXPECT_THROW(simulate(cluster, closed(0, 1, 1)), Error);
  EXPECT_THROW(simulate(cluster, closed(1, 0, 1)), Error);
  EXPECT_THROW(simulate(cluster, closed(1, 1, 0)), Error);
  EXPECT_THROW(simulate({}, closed(1, 1, 1)), Error);
  Workload w = closed(1, 1, 1);
  w.failures = {{.stage = 3}};
  EXPECT_THROW(simulate(cluster, w), Error);
}

}  // namespace
}  // namespace butterfly::cluster
