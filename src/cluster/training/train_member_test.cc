// Which values a member takes, and which not.
#include "cluster/training/train_member.h"

#include <gtest/gtest.h>

namespace butterfly::cluster {
namespace {

const TrainPlan kPlan{.epoch = 10,
                      .step = 3,
                      .members = {{0, {}, ""}, {1, {}, ""}, {2, {}, ""}},
                      .shards = {{0, 0, 2}, {1, 2, 3}}};
const std::vector<DealtLeaves> kDeal{{0, {0, 2}}, {1, {2, 3}}, {2, {3, 4}}};

struct TrainMemberTest : ::testing::Test {
  TrainMemberTest() : member(1, 3) {
    member.plan(kPlan);
    member.peers_linked(10);
  }
  template <typename A>
  bool took() {
    bool found = false;
    for (const auto& action : member.take_actions()) found = found || std::holds_alternative<A>(action);
    return found;
  }
  TrainMember member;
};

TEST_F(TrainMemberTest, AStepOfAnOwner) {
  EXPECT_TRUE(took<ReportReady>());
  EXPECT_EQ(member.gradients(0, 10, 3, {1, 0}), Arrival::kWait);  // faster than the leader's word
  member.deal(10, 3, kDeal);
  EXPECT_TRUE(took<ComputeLeaves>());
  EXPECT_EQ(member.gradients(0, 10, 3, {1, 0}), Arrival::kTake);
  member.gradients_taken(0, 10, 3, {1, 0});
  member.computed(10, 3);
  EXPECT_EQ(member.gradients(1, 10, 3, {0, 2}), Arrival::kTake);
  member.gradients_taken(1, 10, 3, {0, 2});
  EXPECT_FALSE(took<ReduceShard>());
  EXPECT_EQ(member.gradients(2, 10, 3, {0, 3}), Arrival::kTake);
  member.gradients_taken(2, 10, 3, {0, 3});
  EXPECT_TRUE(took<ReduceShard>());
  member.commit(10, 3);  // it has not said that it is prepared
  EXPECT_FALSE(took<UpdateShard>());
  member.reduced(10, 3);
  EXPECT_TRUE(took<ReportPrepared>());
  member.commit(10, 3);
  EXPECT_TRUE(took<UpdateShard>());
  member.commit(10, 3);
  EXPECT_FALSE(took<UpdateShard>());  // never twice
  member.updated(10, 3);
  EXPECT_TRUE(took<SendShard>());
  EXPECT_EQ(member.step(), 3u);
  EXPECT_EQ(member.weights(0, 10, 4, 0, 2), Arrival::kTake);
  member.weights_taken(0, 10, 4);
  EXPECT_TRUE(took<StepComplete>());
  EXPECT_EQ(member.step(), 4u);
}

TEST_F(TrainMemberTest, WhatNobodyMaySendIsRefused) {
  member.deal(10, 3, kDeal);
  EXPECT_EQ(member.gradients(2, 10, 3, {0, 2}), Arrival::kRefuse);  // another's leaf
  EXPECT_EQ(member.gradients(2, 10, 3, {2, 0}), Arrival::kRefuse);  // more than its leaves
  EXPECT_EQ(member.gradients(9, 10, 3, {0, 3}), Arrival::kRefuse);  // nobody
  EXPECT_EQ(member.gradients(2, 10, 3, {0, 3}), Arrival::kTake);
  EXPECT_EQ(member.gradients(2, 10, 3, {0, 3}), Arrival::kRefuse);  // twice
  member.computed(10, 3);
  EXPECT_EQ(member.weights(2, 10, 4, 0, 2), Arrival::kRefuse);  // no owner
  EXPECT_EQ(member.weights(0, 10, 4, 0, 3), Arrival::kRefuse);  // not its shard
  EXPECT_EQ(member.weights(0, 10, 5, 0, 2), Arrival::kRefuse);  // a step that cannot be
  EXPECT_EQ(member.state(10), Arrival::kRefuse);                // nobody said that it comes
}

TEST_F(TrainMemberTest, ASumIsWholeWhenAllItsBucketsAre) {
  TrainMember owner(1, 3);
  owner.plan(kPlan, 2);
  owner.peers_linked(10);
  owner.deal(10, 3, kDeal);
  owner.computed(10, 3);
  owner.take_actions();
  const std::pair<TrainMemberId, PairNode> pieces[] = {{0, {1, 0}}, {1, {0, 2}}, {2, {0, 3}}};
  for (const size_t bucket : {1u, 0u})
    for (const auto& [from, node] : pieces) {
      EXPECT_TRUE(owner.take_actions().empty());
      EXPECT_EQ(owner.gradients(from, 10, 3, node, 2), Arrival::kRefuse);  // there are two
      EXPECT_EQ(owner.gradients(from, 10, 3, node, bucket), Arrival::kTake);
      EXPECT_EQ(owner.gradients(from, 10, 3, node, bucket), Arrival::kRefuse);
      owner.gradients_taken(from, 10, 3, node, bucket);
    }
  const auto actions = owner.take_actions();
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<ReduceShard>(actions[0]));
}

TEST_F(TrainMemberTest, WhatIsOldIsDropped) {
  member.deal(10, 3, kDeal);
  TrainPlan next = kPlan;
  next.epoch = 11;
  member.plan(next);
  EXPECT_EQ(member.gradients(0, 10, 3, {1, 0}), Arrival::kDrop);
  EXPECT_EQ(member.weights(0, 10, 3, 0, 2), Arrival::kDrop);
  member.deal(10, 4, kDeal);
  member.commit(10, 3);
  member.plan(kPlan);
  EXPECT_EQ(member.epoch(), 11u);
  EXPECT_EQ(member.old_messages(), 5u);
}

// Weights of a decided step are still on their way when a new epoch begins, because somebody was lost.
TEST_F(TrainMemberTest, WeightsOfTheEpochBeforeStillCount) {
  TrainMember late(2, 2);
  TrainPlan before = kPlan;
  before.epoch = 9;
  before.step = 2;
  late.plan(before);
  late.plan(kPlan);
  late.peers_linked(10);
  EXPECT_TRUE(late.take_actions().empty() ||
              !std::holds_alternative<ReportReady>(late.take_actions().back()));
  for (const OwnedShard& shard : kPlan.shards) {
    EXPECT_EQ(late.weights(shard.owner, 9, 3, shard.begin, shard.end), Arrival::kTake);
    late.weights_taken(shard.owner, 9, 3);
  }
  EXPECT_EQ(late.step(), 3u);
}

// After a rollback nothing of before is written over what comes from the leader.
TEST_F(TrainMemberTest, AStateWaitsUntilNobodyWrites) {
  EXPECT_EQ(member.weights(0, 10, 4, 0, 2), Arrival::kTake);
  TrainPlan back = kPlan;
  back.epoch = 12;
  back.step = 1;
  back.weights_come = back.moments_come = true;
  member.plan(back);
  EXPECT_EQ(member.state(12), Arrival::kWait);
  member.weights_lost(0, 10, 4);
  EXPECT_EQ(member.weights(0, 10, 4, 0, 2), Arrival::kDrop);
  EXPECT_EQ(member.state(12), Arrival::kTake);
  member.weights_loaded(12);
  EXPECT_EQ(member.step(), 1u);
  member.take_actions();
  member.peers_linked(12);
  EXPECT_FALSE(took<ReportReady>());
  member.moments_loaded(12);
  EXPECT_TRUE(took<ReportReady>());
}

}  // namespace
}  // namespace butterfly::cluster
