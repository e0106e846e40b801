#include "cluster/member/slowness_watch.h"

#include <gtest/gtest.h>

#include "cluster/testing/coordinator_driver.h"

namespace butterfly::cluster {
namespace {

using std::chrono::milliseconds;
using testing::node_id;

struct SlownessWatchTest : testing::CoordinatorDriver {
  // Three stages, predicted to take 1, 2 and 3 ms.
  void serve_three() {
    for (int node = 0; node < 3; ++node) join(node);
    pass(std::chrono::seconds(1));
    plan(asked());
  }
  void plan(Epoch epoch) {
    Placement chain = placement({0, 1, 2});
    for (int i = 0; i < 3; ++i) chain.stages[static_cast<size_t>(i)].members[0].predicted_s = 1e-3 * (i + 1);
    coordinator.planned(epoch, chain, now);
    ready({0, 1, 2}, epoch);
    started({0, 1, 2}, epoch);
    coordinator.steps_connected(epoch, now);
  }
  // The second loses its layers.
  void go_on_without_second(Epoch epoch) {
    coordinator.planned(epoch, placement({0, 2}, 20), now);
    for (const int node : {0, 2}) say(node, Prepared{epoch, Errc::kOk, ""});
    coordinator.steps_paused(epoch, now);
    ready({0, 2}, epoch);
    started({0, 2}, epoch);
    coordinator.steps_connected(epoch, now);
  }
  // Every stage computes so many steps, each so many times as long as predicted.
  void work(uint64_t count, const std::vector<double>& times) {
    steps += count;
    for (int node = 0; node < 3; ++node) {
      const auto i = static_cast<size_t>(node);
      compute_us[i] += static_cast<uint64_t>(static_cast<double>(count) * 1e3 * (node + 1) * times[i]);
      Beat beat;
      beat.jobs = {{.job = kFirstJob,
                    .epoch = job().serving_epoch(),
                    .phase = WorkerPhase::kRunning,
                    .progress = steps,
                    .steps = steps,
                    .compute_us = compute_us[i]}};
      say(node, beat);
    }
  }
  double of(int node) { return seen.contains(node_id(node).key) ? seen.at(node_id(node).key) : 0; }
  void look() { seen = watch.look(coordinator, job()); }

  uint64_t steps = 0;
  std::vector<uint64_t> compute_us = {0, 0, 0};
  SlownessWatch watch;
  std::map<std::string, double> seen;
};

TEST_F(SlownessWatchTest, IsAgainstTheOthersWhateverTheStepsAre) {
  serve_three();
  look();
  EXPECT_TRUE(seen.empty()) << "nothing was computed yet";
  work(100, {1, 1, 1});
  look();
  work(100, {4, 4, 4});  // batches of four
  look();
  EXPECT_NEAR(of(0), 1, 1e-3);
  EXPECT_NEAR(of(2), 1, 1e-3);
  work(100, {4, 40, 4});
  look();
  EXPECT_NEAR(of(0), 1, 1e-3);
  EXPECT_NEAR(of(1), 10, 1e-3);
}

TEST_F(SlownessWatchTest, FewStepsAreAddedToTheNext) {
  serve_three();
  work(100, {1, 1, 1});
  look();
  for (int i = 0; i < 2; ++i) {
    work(SlownessWatch::kStepsMin - 1, {1, 2, 1});
    look();
    EXPECT_EQ(seen.empty(), i == 0);
  }
  EXPECT_NEAR(of(1), 2, 1e-3);
}

// The plan was made for a node that is slow: as predicted means as slow as before.
TEST_F(SlownessWatchTest, WhatPlansTakeANodeForIsPartOfIt) {
  serve_three();
  coordinator.set_slowness(kFirstJob, {{node_id(1).key, 10}}, "", now);
  EXPECT_EQ(coordinator.members().at(node_id(1).key).slowness, 10);
  work(100, {1, 1, 1});
  look();
  work(100, {1, 1, 1});
  look();
  EXPECT_NEAR(of(1), 10, 1e-3);
  work(100, {1, 0.1, 1});  // it has recovered
  look();
  EXPECT_NEAR(of(1), 1, 1e-3);
}

TEST_F(SlownessWatchTest, AnotherPlanBeginsAnew) {
  serve_three();
  work(100, {1, 1, 1});
  look();
  coordinator.steps_failed(job().serving_epoch(), {}, "a test", now);
  look();
  EXPECT_TRUE(seen.empty());
  pass(std::chrono::seconds(1));
  plan(asked());
  ASSERT_TRUE(job().connected());
  work(100, {1, 9, 1});
  look();
  EXPECT_TRUE(seen.empty()) << "counters of two plans have nothing to do with each other";
}

TEST_F(SlownessWatchTest, PlansHearOfItAndForgetItWhereNothingIsSeenAnyMore) {
  serve_three();
  clear();
  coordinator.set_slowness(kFirstJob, {{node_id(1).key, 10}, {"nobody", 3}}, "node-1 is slow", now);
  pass(milliseconds(100));
  const PlanQuestion question = all<MakePlan>().back().question;
  for (const PlanNode& node : question.nodes) EXPECT_EQ(node.slowness, node.id == node_id(1) ? 10 : 1);
  go_on_without_second(question.epoch);  // nobody can see whether it is still slow
  clear();
  pass(config().slowness_age / 2);
  EXPECT_EQ(coordinator.members().at(node_id(1).key).slowness, 10);
  pass(config().slowness_age);
  EXPECT_EQ(coordinator.members().at(node_id(1).key).slowness, 1);
  EXPECT_FALSE(all<MakePlan>().empty()) << "it is tried again";
}

TEST_F(SlownessWatchTest, WhoDoesNotRunAllTheTimeIsNotTriedAgain) {
  serve_three();
  clear();
  coordinator.set_slowness(kFirstJob, {{node_id(1).key, 10}}, "node-1 is slow", now);
  pass(milliseconds(100));
  go_on_without_second(all<MakePlan>().back().question.epoch);
  const auto pass_age = [&](double held_up_s) {
    for (Duration at{}; at < 2 * config().slowness_age; at += std::chrono::seconds(1)) {
      Beat beat;
      beat.machine.held_up_s = held_up_s;
      say(1, beat);
      pass(std::chrono::seconds(1));
    }
  };
  pass_age(0.03);
  EXPECT_EQ(coordinator.members().at(node_id(1).key).slowness, 10);
  clear();
  coordinator.set_slowness(kFirstJob, {}, "plan again", now);
  pass(milliseconds(100));
  ASSERT_FALSE(all<MakePlan>().empty());
  for (const PlanNode& node : all<MakePlan>().back().question.nodes)
    EXPECT_EQ(node.held_up_s, node.id == node_id(1) ? 0.03 : 0);
  coordinator.set_slowness(kFirstJob, {{node_id(1).key, 1}}, "it computes as fast as ever", now);
  pass(milliseconds(100));
  coordinator.planned(all<MakePlan>().back().question.epoch, placement({0, 2}, 20), now);
  clear();
  pass_age(0);
  EXPECT_FALSE(all<MakePlan>().empty()) << "it is tried again";
  EXPECT_EQ(coordinator.members().at(node_id(1).key).slowness, 1);
}

}  // namespace
}  // namespace butterfly::cluster
