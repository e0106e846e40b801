// Predictions by hand, and plans that are none.
#include "cluster/cost/prediction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/testing/random_problem.h"

namespace butterfly::cluster {
namespace {

using ::testing::HasSubstr;
using testing::unit_node;

// Four pieces of 10 bytes; node b does twice as much per second as a.
Problem simple(PlanOptions options = {}) {
  PieceList list{.model = "simple", .pieces = {}, .decode_in_bytes = 10, .prefill_in_bytes = 40, .batch = 2};
  for (int i = 0; i < 4; ++i) {
    Piece piece{.name = "p"};
    piece.decode.weight_bytes = 10;
    piece.prefill.weight_bytes = 30;
    piece.weight_bytes = 8;
    piece.kv_bytes = 2;
    piece.decode_out_bytes = i == 3 ? 50 : 20;
    piece.prefill_out_bytes = 80;
    list.pieces.push_back(piece);
  }
  ClusterSpec cluster;
  cluster.nodes = {unit_node("a"), unit_node("b", 2)};
  cluster.nodes[1].ram_bytes = 25;
  cluster.nodes[0].disk = 4;
  cluster.connect_all({1, 10});
  return Problem(list, cluster, options);
}

const Plan kSplit{{{{0}, 0, 1, {1.0}}, {{1}, 1, 4, {1.0}}}};

TEST(Prediction, AddsUpByHand) {
  const Problem problem = simple();
  const Prediction p = predict(problem, kSplit);
  ASSERT_EQ(p.stages.size(), 2u);
  EXPECT_DOUBLE_EQ(p.stages[0].seconds, 10);
  EXPECT_DOUBLE_EQ(p.stages[1].seconds, 15);
  EXPECT_DOUBLE_EQ(p.stages[0].hop_in.message_s, 0);      // the coordinator itself
  EXPECT_DOUBLE_EQ(p.stages[1].hop_in.message_s, 1 + 2);  // 20 bytes
  EXPECT_DOUBLE_EQ(p.hop_out.message_s, 1 + 5);           // 50 bytes
  EXPECT_DOUBLE_EQ(p.latency_s, 10 + 3 + 15 + 6);
  EXPECT_DOUBLE_EQ(p.bottleneck_s, 15);
  EXPECT_DOUBLE_EQ(p.tokens_per_s, 2.0 / 15);
  EXPECT_DOUBLE_EQ(p.streams_to_fill, 2 * 34.0 / 15);
  EXPECT_DOUBLE_EQ(p.load_balance, 12.5 / 15);  // mean / max
  EXPECT_DOUBLE_EQ(p.bytes_per_step, 70);
  EXPECT_EQ(p.hops, 2u);
  EXPECT_DOUBLE_EQ(p.first_token_s, 30 + (1 + 8) + 45 + (1 + 8));
  EXPECT_EQ(p.stages[1].weight_bytes, 24u);
  EXPECT_EQ(p.stages[1].kv_bytes, 6u);
  EXPECT_DOUBLE_EQ(p.load_s, 8.0 / 4);
  EXPECT_DOUBLE_EQ(objective_seconds(problem, p), 34);
  EXPECT_EQ(why_not_fit(problem, kSplit), "b would hold 30 B of weights and cache, it has room for 25 B");
}

TEST(Prediction, RoundsOfAFewBatches) {
  const Problem few = simple({.objective = Objective::kThroughput, .batches_in_flight = 2});
  EXPECT_DOUBLE_EQ(predict(few, kSplit).round_s, 34);  // not enough to fill: the latency rules
  EXPECT_DOUBLE_EQ(predict(few, kSplit).tokens_per_s, 4.0 / 34);
  const Problem enough = simple({.objective = Objective::kThroughput, .batches_in_flight = 3});
  EXPECT_DOUBLE_EQ(predict(enough, kSplit).round_s, 45);
  EXPECT_DOUBLE_EQ(objective_seconds(enough, predict(enough, kSplit)), 45);
  const Problem limited = simple({.objective = Objective::kThroughput, .latency_limit_s = 33});
  EXPECT_EQ(objective_seconds(limited, predict(limited, kSplit)), kNever);
}

TEST(Prediction, RefusesWhatIsNoPlan) {
  const Problem problem = simple();
  const auto message = [&](Plan plan) {
    try {
      predict(problem, plan);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(message(kSplit), "accepted");
  EXPECT_THAT(message({}), HasSubstr("ends at piece 0, the model has 4"));
  EXPECT_THAT(message({{{{0}, 0, 2, {1.0}}, {{1}, 3, 4, {1.0}}}}), HasSubstr("expected it to begin at 2"));
  EXPECT_THAT(message({{{{0}, 0, 2, {1.0}}, {{0}, 2, 4, {1.0}}}}), HasSubstr("node a has two stages"));
  EXPECT_THAT(message({{{{0}, 0, 5, {1.0}}}}), HasSubstr("[0, 5)"));
  EXPECT_THAT(message({{{{7}, 0, 4, {1.0}}}}), HasSubstr("node 7"));
  EXPECT_THAT(message({{{{}, 0, 4, {}}}}), HasSubstr("has no node"));
}

}  // namespace
}  // namespace butterfly::cluster
