// The leader's rules one by one; train_simulation_test.cc plays them together.
#include "cluster/training/train_lead.h"

#include <gtest/gtest.h>

namespace butterfly::cluster {
namespace {

struct TrainLeadTest : ::testing::Test {
  TrainLeadTest()
      : lead({.step = 5,
              .first_epoch = 100,
              .block_bytes = {100, 100},
              .snapshot_every = 3,
              .shard_bytes_min = 1000}) {}

  // The only action of this kind since the last look.
  template <typename A>
  A take() {
    A found;
    size_t count = 0;
    for (auto& action : lead.take_actions())
      if (auto* it = std::get_if<A>(&action)) {
        found = *it;
        ++count;
      }
    EXPECT_EQ(count, 1u);
    return found;
  }
  template <typename A>
  bool none() {
    for (auto& action : lead.take_actions())
      if (std::holds_alternative<A>(action)) return false;
    return true;
  }
  void form() {
    const BeginEpoch begin = take<BeginEpoch>();
    for (const auto& member : begin.plan.members) lead.ready(member.id, begin.plan.epoch);
  }
  // Two members and one owner, the leader; the deal of a step is taken.
  DealStep begin_step(uint64_t target = 6) {
    form();
    lead.join({.id = 1, .node = {}, .address = {}}, 1);
    form();
    lead.run_until(target, 4);
    return take<DealStep>();
  }
  void finish_step(const DealStep& step) {
    lead.leaves_done(0, step.epoch, step.step, 1);
    lead.leaves_done(1, step.epoch, step.step, 1);
    lead.prepared(0, step.epoch, step.step);
    lead.complete(step.epoch, step.step + 1);
  }

  TrainLead lead;
};

TEST_F(TrainLeadTest, AStepCountsOnceEverythingIsThere) {
  const DealStep step = begin_step();
  EXPECT_EQ(step.deal, (std::vector<DealtLeaves>{{0, {0, 2}}, {1, {2, 4}}}));
  lead.leaves_done(0, step.epoch, 5, 1);
  lead.prepared(0, step.epoch, 5);
  EXPECT_TRUE(none<CommitStep>());
  lead.complete(step.epoch, 6);  // nobody may have it yet
  EXPECT_EQ(lead.step(), 5u);
  lead.leaves_done(1, step.epoch - 1, 5, 1);
  lead.leaves_done(1, step.epoch, 4, 1);
  lead.leaves_done(7, step.epoch, 5, 1);
  EXPECT_EQ(lead.counters().old_reports, 3u);
  EXPECT_TRUE(none<CommitStep>());
  lead.leaves_done(1, step.epoch, 5, 1);
  EXPECT_EQ(take<CommitStep>().step, 5u);
  EXPECT_FALSE(lead.idle());
  lead.complete(step.epoch, 6);
  EXPECT_TRUE(lead.idle());
  EXPECT_EQ(lead.step(), 6u);
}

TEST_F(TrainLeadTest, KnowsWhomItWaitsFor) {
  using Ids = std::vector<TrainMemberId>;
  form();
  lead.join({.id = 1, .node = {}, .address = {}}, 1);
  EXPECT_EQ(lead.waiting_for(), Ids{1});
  form();
  EXPECT_EQ(lead.waiting_for(), Ids{});
  lead.run_until(6, 4);
  EXPECT_EQ(lead.waiting_for(), Ids{1});
  lead.leaves_done(1, lead.epoch(), 5, 1);
  EXPECT_EQ(lead.waiting_for(), Ids{});
}

TEST_F(TrainLeadTest, FasterMembersGetMore) {
  const DealStep step = begin_step(8);
  lead.leaves_done(0, step.epoch, 5, 1);
  lead.leaves_done(1, step.epoch, 5, 3);
  lead.prepared(0, step.epoch, 5);
  take<CommitStep>();
  lead.complete(step.epoch, 6);
  EXPECT_EQ(take<DealStep>().deal, (std::vector<DealtLeaves>{{0, {0, 3}}, {1, {3, 4}}}));
}

TEST_F(TrainLeadTest, AMemberThatIsLostBeforeTheDecisionCostsOneStepsWork) {
  const DealStep step = begin_step();
  lead.lose(1);
  const BeginEpoch again = take<BeginEpoch>();
  EXPECT_GT(again.plan.epoch, step.epoch);
  EXPECT_EQ(again.plan.step, 5u);
  EXPECT_FALSE(again.from_snapshot);
  EXPECT_TRUE(again.weights_for.empty());
  lead.ready(0, again.plan.epoch);
  EXPECT_EQ(take<DealStep>().deal, (std::vector<DealtLeaves>{{0, {0, 4}}}));
  EXPECT_EQ(lead.counters().steps_redone, 1u);
}

TEST_F(TrainLeadTest, AfterTheDecisionTheStepIsFinishedWithoutIt) {
  const DealStep step = begin_step();
  lead.leaves_done(0, step.epoch, 5, 1);
  lead.leaves_done(1, step.epoch, 5, 1);
  lead.prepared(0, step.epoch, 5);
  take<CommitStep>();
  lead.lose(1);
  EXPECT_TRUE(none<BeginEpoch>());
  lead.complete(step.epoch, 6);
  EXPECT_EQ(lead.step(), 6u);
  EXPECT_EQ(lead.counters().rollbacks, 0u);
  // Before the next one begins, those who are left are told.
  lead.run_until(7, 4);
  EXPECT_EQ(take<BeginEpoch>().plan.members.size(), 1u);
}

TEST_F(TrainLeadTest, JoinsWaitForTheEndOfTheStepAndASnapshot) {
  const DealStep step = begin_step();
  lead.join({.id = 2, .node = {}, .address = {}}, 1);
  EXPECT_TRUE(none<BeginEpoch>());
  finish_step(step);
  const GatherState gather = take<GatherState>();
  EXPECT_EQ(gather.step, 6u);
  lead.state_report(0, gather.epoch, 6, "a");
  lead.state_report(1, gather.epoch, 6, "a");
  const BeginEpoch begin = take<BeginEpoch>();
  EXPECT_EQ(begin.plan.members.size(), 3u);
  EXPECT_EQ(begin.weights_for, (std::set<TrainMemberId>{2}));
  EXPECT_FALSE(begin.from_snapshot);
  EXPECT_EQ(lead.snapshot_step(), 6u);
}

TEST_F(TrainLeadTest, WhoseParametersDifferIsDroppedAndTheStepsAreComputedAgain) {
  DealStep step = begin_step(20);
  for (int i = 0; i < 3; ++i) {
    lead.leaves_done(0, step.epoch, step.step, 1);
    lead.leaves_done(1, step.epoch, step.step, 1);
    lead.prepared(0, step.epoch, step.step);
    take<CommitStep>();
    lead.complete(step.epoch, step.step + 1);
    if (i < 2) step = take<DealStep>();
  }
  const GatherState gather = take<GatherState>();
  EXPECT_EQ(gather.step, 8u);
  lead.state_report(0, gather.epoch, 8, "a");
  lead.state_report(1, gather.epoch, 8, "b");
  bool dropped = false, back = false;
  for (const auto& action : lead.take_actions()) {
    if (const auto* it = std::get_if<DropMember>(&action)) dropped = it->member == 1;
    if (const auto* it = std::get_if<BeginEpoch>(&action))
      back = it->from_snapshot && it->plan.step == 5 && it->plan.members.size() == 1 &&
             it->weights_for.contains(0) && it->moments_for.contains(0);
  }
  EXPECT_TRUE(dropped);
  EXPECT_TRUE(back);
  EXPECT_EQ(lead.step(), 5u);
  EXPECT_EQ(lead.counters().steps_rolled_back, 3u);
}

TEST(TrainLead, AnOwnerThatIsLostTakesTheRunBackToTheSnapshot) {
  TrainLead lead(
      {.step = 0, .first_epoch = 1, .block_bytes = {100, 100}, .snapshot_every = 50, .shard_bytes_min = 100});
  lead.ready(0, lead.epoch());
  lead.join({.id = 1, .node = {}, .address = {}}, 1);
  EXPECT_EQ(lead.plan().shards, (std::vector<OwnedShard>{{0, 0, 1}, {1, 1, 2}}));
  for (const TrainMemberId id : {0u, 1u}) lead.ready(id, lead.epoch());
  lead.run_until(9, 2);
  for (uint64_t step = 0; step < 3; ++step) {
    for (const TrainMemberId id : {0u, 1u}) {
      lead.leaves_done(id, lead.epoch(), step, 1);
      lead.prepared(id, lead.epoch(), step);
    }
    lead.complete(lead.epoch(), step + 1);
  }
  EXPECT_EQ(lead.step(), 3u);
  lead.take_actions();
  lead.lose(1);
  EXPECT_EQ(lead.step(), 0u);
  EXPECT_EQ(lead.plan().shards, (std::vector<OwnedShard>{{0, 0, 2}}));
  EXPECT_EQ(lead.counters().steps_rolled_back, 3u);
}

// Sums of slots: dealt whole, to whoever is fast.
TEST(TrainLeadSlots, AreDealtWhole) {
  TrainLead lead({.block_bytes = {100}, .shard_bytes_min = 1000, .slots = 3});
  lead.ready(0, 1);
  lead.join({.id = 1, .node = {}, .address = {}}, 1);
  for (const TrainMemberId id : {0, 1}) lead.ready(id, 2);
  lead.run_until(2, 10);  // subtrees of four leaves
  std::vector<DealtLeaves> deal;
  for (auto& action : lead.take_actions())
    if (auto* it = std::get_if<DealStep>(&action)) deal = it->deal;
  EXPECT_EQ(deal, (std::vector<DealtLeaves>{{0, {0, 8}}, {1, {8, 10}}}));
  EXPECT_TRUE(lead.plan().held.empty());
}

// What coding leaves is kept by whoever computes a slot: slots stay, and a loss goes back to the snapshot,
// since who began the step has changed already.
TEST(TrainLeadSlots, WithResidualsStayWhereTheyAre) {
  TrainLead lead(
      {.block_bytes = {100}, .snapshot_every = 100, .shard_bytes_min = 1000, .slots = 4, .residuals = true});
  const auto last = [&]<typename A>(A) {
    std::optional<A> found;
    for (auto& action : lead.take_actions())
      if (auto* it = std::get_if<A>(&action)) found = *it;
    return found;
  };
  EXPECT_EQ(last(BeginEpoch{})->plan.held, (std::vector<HeldSlots>{{0, 0, 4}}));
  lead.ready(0, 1);
  lead.join({.id = 1, .node = {}, .address = {}}, 1);
  lead.join({.id = 2, .node = {}, .address = {}}, 1);
  auto begin = last(BeginEpoch{});
  ASSERT_TRUE(begin);
  EXPECT_EQ(begin->moments_for, (std::set<TrainMemberId>{0, 1}));  // 2 comes with the next epoch
  for (const TrainMemberId id : {0, 1}) lead.ready(id, 2);
  begin = last(BeginEpoch{});
  ASSERT_TRUE(begin);
  const std::vector<HeldSlots> held = begin->plan.held;
  ASSERT_EQ(held.size(), 2u);  // no third one would make a step shorter
  for (const TrainMemberId id : {0, 1, 2}) lead.ready(id, 3);
  lead.run_until(2, 8);
  const auto first = last(DealStep{});
  ASSERT_TRUE(first);
  // Unequal speeds change nothing before the members do.
  lead.leaves_done(0, 3, 0, 1);
  lead.leaves_done(1, 3, 0, 9);
  lead.leaves_done(2, 3, 0, 9);
  lead.prepared(0, 3, 0);
  lead.complete(3, 1);
  const auto second = last(DealStep{});
  ASSERT_TRUE(second);
  EXPECT_EQ(second->deal, first->deal);
  lead.lose(2);
  begin = last(BeginEpoch{});
  ASSERT_TRUE(begin);
  EXPECT_TRUE(begin->from_snapshot);
  EXPECT_EQ(begin->plan.step, 0u);
  EXPECT_EQ(begin->weights_for, (std::set<TrainMemberId>{0, 1}));
  // By now their speeds are known: the fast one has all slots.
  EXPECT_EQ(begin->plan.held, (std::vector<HeldSlots>{{0, 0, 4}}));
  EXPECT_EQ(begin->moments_for, (std::set<TrainMemberId>{0}));
}

// Those who are late are asked once, when enough others are done and the grace is over.
TEST(TrainLeadQuorum, AsksTheLateOnesAfterTheGrace) {
  TrainLeadConfig config{.block_bytes = {100}, .slots = 4, .residuals = true, .quorum = 0.5, .grace_s = 2};
  TrainLead lead(config);
  for (const TrainMemberId id : {1u, 2u, 3u}) lead.join({.id = id, .node = {}, .address = {}}, 1);
  const auto take = [&] {
    std::vector<CutShort> cuts;
    for (const auto& action : lead.take_actions())
      if (const auto* cut = std::get_if<CutShort>(&action)) cuts.push_back(*cut);
    return cuts;
  };
  lead.ready(kTrainLeader, lead.epoch());
  for (TrainMemberId id = 0; id < 4; ++id) lead.ready(id, lead.epoch());
  lead.run_until(1, 8);
  ASSERT_EQ(lead.phase(), TrainLead::Phase::kStepping);
  lead.tick(10);
  lead.leaves_done(0, lead.epoch(), 0, 1);
  lead.tick(20);
  EXPECT_FALSE(lead.cut_at());
  EXPECT_TRUE(take().empty());  // one of four
  lead.leaves_done(2, lead.epoch(), 0, 1);
  ASSERT_TRUE(lead.cut_at());
  EXPECT_DOUBLE_EQ(*lead.cut_at(), 22);
  lead.tick(21.9);
  EXPECT_TRUE(take().empty());
  lead.tick(22);
  const auto cuts = take();
  ASSERT_EQ(cuts.size(), 1u);
  EXPECT_EQ(cuts[0].members, (std::set<TrainMemberId>{1, 3}));
  lead.tick(30);
  EXPECT_TRUE(take().empty());
  EXPECT_EQ(lead.counters().cut_short, 2u);
  // The step counts when they too have said what they have.
  lead.prepared(0, lead.epoch(), 0);
  EXPECT_EQ(lead.phase(), TrainLead::Phase::kStepping);
  lead.leaves_done(1, lead.epoch(), 0, 1, 1);
  lead.leaves_done(3, lead.epoch(), 0, 1, 0);
  EXPECT_EQ(lead.phase(), TrainLead::Phase::kCommitting);
}

}  // namespace
}  // namespace butterfly::cluster
