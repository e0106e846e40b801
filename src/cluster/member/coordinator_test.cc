// One event after the other, by hand: what the coordinator asks its shell to do.
#include "cluster/member/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/member/status.h"
#include "cluster/testing/coordinator_driver.h"
#include "cluster/testing/member_samples.h"

namespace butterfly::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using testing::join_message;
using testing::node_id;

struct CoordinatorTest : testing::CoordinatorDriver {};

TEST(Hold, IsForLongerEachTimeUnlessItWorkedInBetween) {
  const CoordinatorConfig config;
  Hold hold;
  TimePoint now{};
  now += std::chrono::hours(1);
  const auto fails = [&](Duration after) {
    now += after;
    hold.extend(config, false, now);
    return hold.until - now;
  };
  using std::chrono::seconds;
  EXPECT_EQ(fails(seconds(0)), seconds(5));
  EXPECT_EQ(fails(seconds(6)), seconds(5)) << "bad luck";
  EXPECT_EQ(fails(seconds(14)), seconds(5)) << "after 9 s of work";
  EXPECT_EQ(fails(seconds(6)), seconds(10)) << "as soon as it was used, again and again";
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(fails(seconds(15)), seconds(10)) << "whoever ends it again and again sees it back soon";
  EXPECT_EQ(fails(seconds(15)), seconds(20)) << "the tenth time";
  EXPECT_EQ(fails(seconds(21)), seconds(40));
  EXPECT_EQ(fails(seconds(79)), seconds(80)) << "after 39 s of work";
  EXPECT_EQ(fails(seconds(161)), seconds(5)) << "after 81 s";
  for (const int held : {5, 5, 10}) EXPECT_EQ(fails(seconds(6)), seconds(held));
  EXPECT_EQ(fails(seconds(301)), seconds(5));
}

TEST_F(CoordinatorTest, FromJoinsToServing) {
  join(0);
  join(1);
  EXPECT_EQ(sent<Welcome>().size(), 2u);
  EXPECT_TRUE(all<MakePlan>().empty());  // others may come with them
  pass(seconds(1));
  ASSERT_EQ(all<MakePlan>().size(), 1u);
  const PlanQuestion question = all<MakePlan>()[0].question;
  EXPECT_EQ(question.nodes.size(), 2u);
  EXPECT_GT(question.epoch, first_epoch(7));
  coordinator.planned(question.epoch, placement({1, 0}), now);
  const auto orders = sent<Assign>();
  ASSERT_EQ(orders.size(), 2u);
  EXPECT_EQ(orders[0].first, 11u);
  const Assignment& first = orders[0].second.work;
  EXPECT_EQ(first.stage, 0u);
  EXPECT_EQ(first.previous, node_id(0));
  EXPECT_EQ(first.next, node_id(0));
  EXPECT_EQ(first.next_address, "10.0.0.0:4711");
  EXPECT_EQ(first.sources.front().node, node_id(0));
  EXPECT_EQ(orders[1].second.work.next_address, "10.0.0.1:4711")
      << "steps go from the coordinator to the first";
  EXPECT_EQ(job().why_not_serving(), "loading plan 1");
  ready({1}, question.epoch);
  EXPECT_TRUE(sent<Go>().empty());
  ready({0}, question.epoch);
  EXPECT_EQ(sent<Go>().size(), 2u);
  started({0, 1}, question.epoch);
  ASSERT_EQ(all<ServeSteps>().size(), 1u);
  EXPECT_EQ(all<ServeSteps>()[0].epoch, question.epoch);
  EXPECT_EQ(all<ServeSteps>()[0].addresses[0], "10.0.0.1:4711");
  // Started stages are not yet a chain that answers: nobody may be told so.
  const auto serving_events = [&] {
    size_t count = 0;
    for (const ClusterEvent& event : coordinator.events().since(0))
      count += event.kind == EventKind::kServing;
    return count;
  };
  EXPECT_FALSE(job().connected());
  EXPECT_EQ(job().why_not_serving(), "connecting the stages of plan 1");
  EXPECT_EQ(serving_events(), 0u);
  coordinator.steps_connected(question.epoch - 1, now);
  EXPECT_FALSE(job().connected()) << "the chain of another plan";
  coordinator.steps_connected(question.epoch, now);
  EXPECT_TRUE(job().connected());
  EXPECT_EQ(job().why_not_serving(), "");
  EXPECT_EQ(serving_events(), 1u);
}

TEST_F(CoordinatorTest, FirstPlanWaitsForTheNodesThatAreWanted) {
  CoordinatorConfig two = config();
  two.nodes_wanted = 2;
  restart(two);
  join(0);
  pass(seconds(5));
  EXPECT_TRUE(all<MakePlan>().empty());
  EXPECT_EQ(job().why_not_serving(), "waiting for nodes, 1 of 2 are here");
  join(1);
  pass(milliseconds(400));
  EXPECT_EQ(all<MakePlan>().size(), 1u);
}

TEST_F(CoordinatorTest, LinkClosedIsDeathAtOnce) {
  const Epoch before = serve(3);
  coordinator.link_closed(12, "reset", now);
  ASSERT_EQ(all<HaltSteps>().size(), 1u);
  EXPECT_EQ(all<HaltSteps>()[0].epoch, before);
  EXPECT_THAT(all<HaltSteps>()[0].why, HasSubstr("node-2"));
  pass(milliseconds(50));
  ASSERT_EQ(all<MakePlan>().size(), 1u);
  EXPECT_EQ(all<MakePlan>()[0].question.nodes.size(), 2u);
  EXPECT_GT(asked(), before);
  EXPECT_THAT(job().last_failure(), HasSubstr("reset"));
}

TEST_F(CoordinatorTest, SilenceIsSuspectAfterOneSecondAndDeathAfterThree) {
  serve(2);
  pass(milliseconds(1050), {1});
  EXPECT_EQ(coordinator.members().at(node_id(1).key).state, NodeState::kSuspect);
  EXPECT_TRUE(all<HaltSteps>().empty());
  pass(milliseconds(500));
  EXPECT_EQ(coordinator.members().at(node_id(1).key).state, NodeState::kUp);
  pass(seconds(3), {1});
  EXPECT_EQ(coordinator.members().at(node_id(1).key).state, NodeState::kDead);
  EXPECT_EQ(all<HaltSteps>().size(), 1u);
  ASSERT_EQ(all<CloseLink>().size(), 1u);
  EXPECT_EQ(all<CloseLink>()[0].link, 11u);
  // What still comes from there is counted, not believed.
  say(1, Beat{});
  EXPECT_EQ(coordinator.counters().unknown_links, 1u);
}

TEST_F(CoordinatorTest, BeatsWithoutProgressAreFound) {
  serve(2);
  for (int i = 0; i < 70; ++i) {
    pass(milliseconds(50), {1});
    if (coordinator.members().at(node_id(1).key).here())
      say(1, Beat{.jobs = {{.phase = WorkerPhase::kRunning, .progress = 9, .pending = 1}}});
  }
  EXPECT_EQ(coordinator.members().at(node_id(1).key).state, NodeState::kDead);
  EXPECT_THAT(coordinator.members().at(node_id(1).key).last_failure, HasSubstr("no progress"));
}

// A machine under load: its steps take two seconds each, so one of five is no death, and one of thirteen is.
TEST_F(CoordinatorTest, SlowStepsHaveTheTimeThatSlowStepsTake) {
  const Epoch epoch = serve(2);
  JobBeat beat{.epoch = epoch, .phase = WorkerPhase::kRunning, .progress = 1, .pending = 1};
  const auto stand_still = [&](Duration duration) {
    for (Duration done{}; done < duration; done += milliseconds(50)) {
      pass(milliseconds(50), {1});
      if (coordinator.members().at(node_id(1).key).here()) say(1, Beat{.jobs = {beat}});
    }
    return coordinator.members().at(node_id(1).key).state;
  };
  EXPECT_EQ(stand_still(milliseconds(2000)), NodeState::kSuspect);
  beat.progress = beat.steps = 2;
  beat.compute_us = 2'000'000;
  say(1, Beat{.jobs = {beat}});
  beat.progress = beat.steps = 3;
  beat.compute_us = 4'000'000;
  say(1, Beat{.jobs = {beat}});
  EXPECT_NE(stand_still(seconds(10)), NodeState::kDead);
  EXPECT_EQ(stand_still(seconds(3)), NodeState::kDead);
}

TEST_F(CoordinatorTest, ItsOwnPauseKillsNobody) {
  serve(2);
  now += seconds(60);
  coordinator.tick(now);
  EXPECT_TRUE(all<HaltSteps>().empty());
  pass(seconds(2));
  EXPECT_NE(job().serving_epoch(), 0u);
}

TEST_F(CoordinatorTest, FailedLoadLeadsToAPlanWithoutTheNode) {
  join(0);
  join(1);
  pass(seconds(1));
  const Epoch first = asked();
  coordinator.planned(first, placement({0, 1}), now);
  say(1, Ready{first, Errc::kOutOfMemory, "needs 5 GiB", 0, 0});
  const TimePoint failed_at = now;
  pass(milliseconds(50));
  const auto plans = all<MakePlan>();
  ASSERT_EQ(plans.size(), 2u);
  ASSERT_EQ(plans[1].question.nodes.size(), 1u);
  EXPECT_EQ(plans[1].question.nodes[0].id, node_id(0));
  // The other one's report is about a plan that is over.
  say(0, Ready{first, Errc::kOk, "", 1, 1});
  EXPECT_EQ(coordinator.counters().old_epochs, 1u);
  // Without it there is no plan: it is tried again when its time is over, not before.
  coordinator.planned(asked(), Result<Placement>(Errc::kOutOfMemory, "does not fit"), now);
  EXPECT_EQ(job().why_not_serving(), "does not fit");
  while (all<MakePlan>().back().question.nodes.size() == 1 && now - failed_at < seconds(10)) {
    pass(milliseconds(50));
    if (job().change_phase())
      coordinator.planned(asked(), Result<Placement>(Errc::kOutOfMemory, "does not fit"), now);
  }
  EXPECT_EQ(now - failed_at, config().hold_min);
  EXPECT_LE(all<MakePlan>().size(), 10u);  // ever longer pauses in between
}

// Its disk was full; somebody made room and started it again, and does not wait for minutes.
TEST_F(CoordinatorTest, WhoIsStartedAgainMayLoadAgain) {
  serve(2);
  join(2);
  pass(seconds(1));
  const Epoch epoch = asked();
  coordinator.planned(epoch, placement({0, 1, 2}, 100), now);
  say(2, Prepared{epoch, Errc::kOutOfMemory, "no room on the disk", {}});
  EXPECT_GT(job().held_until(node_id(2)), now);
  coordinator.link_closed(link_of(2), "reset", now);
  join(2, 40);
  EXPECT_GT(job().held_until(node_id(2)), now) << "the same process";
  coordinator.link_closed(40, "reset", now);
  join(2, 41, 99);
  EXPECT_LE(job().held_until(node_id(2)), now);
}

TEST_F(CoordinatorTest, ReportsOfAnOlderPlanDoNotCount) {
  for (const int node : {0, 1, 2}) join(node);
  pass(seconds(1));
  const Epoch first = asked();
  coordinator.planned(first, placement({0, 1, 2}), now);
  coordinator.link_closed(12, "gone", now);
  pass(milliseconds(50));
  const Epoch second = asked();
  coordinator.planned(second, placement({0, 1}), now);
  ready({0, 1}, first);
  EXPECT_TRUE(sent<Go>().empty());
  EXPECT_EQ(coordinator.counters().old_epochs, 2u);
  ready({0, 1}, second);
  EXPECT_EQ(sent<Go>().size(), 2u);
  started({0, 1}, first);
  EXPECT_EQ(job().serving_epoch(), 0u);
  started({0, 1}, second);
  EXPECT_EQ(job().serving_epoch(), second);
}

TEST_F(CoordinatorTest, LostNodeIsTakenBackAtOnceWhenItIsNeeded) {
  serve(2);
  coordinator.link_closed(11, "killed", now);
  pass(milliseconds(50));
  coordinator.planned(asked(), Result<Placement>(Errc::kOutOfMemory, "does not fit"), now);
  EXPECT_EQ(job().why_not_serving(), "does not fit");
  join(1, 21, 999);
  clear();
  pass(milliseconds(500));
  // First without it, for it has just failed; then with it, for there is no other way.
  ASSERT_EQ(all<MakePlan>().size(), 1u);
  EXPECT_EQ(all<MakePlan>()[0].question.nodes.size(), 1u);
  coordinator.planned(asked(), Result<Placement>(Errc::kOutOfMemory, "does not fit"), now);
  EXPECT_EQ(all<MakePlan>().back().question.nodes.size(), 2u);
}

TEST_F(CoordinatorTest, BetterPlanIsPreparedWhileTheOldOneRuns) {
  const Epoch before = serve(2);
  join(2);
  pass(milliseconds(500));
  const Epoch next = asked();
  coordinator.planned(next, placement({0, 1, 2}, 20), now);
  EXPECT_EQ(sent<Prepare>().size(), 3u);
  EXPECT_TRUE(all<PauseSteps>().empty());
  EXPECT_EQ(job().serving_epoch(), before);
  for (const int node : {0, 1, 2}) say(node, Prepared{next, Errc::kOk, ""});
  ASSERT_EQ(all<PauseSteps>().size(), 1u);
  EXPECT_EQ(all<PauseSteps>()[0].epoch, before);
  EXPECT_TRUE(sent<Assign>().empty());  // only between steps
  coordinator.steps_paused(next, now);
  EXPECT_EQ(sent<Assign>().size(), 3u);
  ASSERT_EQ(all<HaltSteps>().size(), 1u);  // of the old plan nothing is left
  EXPECT_EQ(all<HaltSteps>()[0].epoch, before);
  EXPECT_EQ(job().serving_epoch(), 0u);
  ready({0, 1, 2}, next);
  started({0, 1, 2}, next);
  EXPECT_EQ(job().serving_epoch(), next);
  EXPECT_EQ(coordinator.counters().halts, 0u);
}

TEST_F(CoordinatorTest, PlanThatIsHardlyBetterIsNotWorthIt) {
  const Epoch before = serve(2);
  join(2);
  pass(milliseconds(500));
  coordinator.planned(asked(), placement({0, 1, 2}, 10.5), now);
  pass(seconds(1));
  EXPECT_TRUE(sent<Prepare>().empty());
  EXPECT_EQ(job().serving_epoch(), before);
}

TEST_F(CoordinatorTest, ChangeThatFailsWhilePausingLetsTheOldPlanGoOn) {
  const Epoch before = serve(2);
  join(2);
  pass(milliseconds(500));
  const Epoch next = asked();
  coordinator.planned(next, placement({0, 1, 2}, 20), now);
  for (const int node : {0, 1, 2}) say(node, Prepared{next, Errc::kOk, ""});
  coordinator.link_closed(12, "gone", now);
  ASSERT_EQ(all<ServeSteps>().size(), 1u);
  EXPECT_EQ(all<ServeSteps>()[0].epoch, before);
  EXPECT_EQ(job().serving_epoch(), before);
  coordinator.steps_paused(next, now);  // too late
  EXPECT_TRUE(sent<Assign>().empty());
}

TEST_F(CoordinatorTest, RemovalActsAtOnceAndLasts) {
  serve(3);
  EXPECT_EQ(coordinator.remove_node("node-9", now).code(), Errc::kNotFound);
  EXPECT_EQ(coordinator.remove_node("node-0", now).code(), Errc::kInvalidArgument);
  ASSERT_TRUE(coordinator.remove_node("node-1", now).ok());
  EXPECT_EQ(all<CloseLink>().size(), 1u);
  EXPECT_EQ(all<HaltSteps>().size(), 1u);
  pass(milliseconds(50));
  EXPECT_EQ(all<MakePlan>()[0].question.nodes.size(), 2u);
  clear();
  open(1, 31);
  ASSERT_EQ(sent<Refuse>().size(), 1u);
  EXPECT_TRUE(sent<Refuse>()[0].second.forever);
  EXPECT_EQ(all<CloseLink>().size(), 1u);
}

TEST_F(CoordinatorTest, StrangersAreRefusedInWords) {
  Join other = join_message(1);
  other.capabilities.numerics_id = 2;
  open(1);
  say(1, other);
  ASSERT_EQ(sent<Refuse>().size(), 1u);
  EXPECT_THAT(sent<Refuse>()[0].second.text, HasSubstr("numerics id is 2, this cluster's is 1"));
  clear();
  open(2);
  say(2, Beat{});
  EXPECT_EQ(all<CloseLink>().size(), 1u);
  open(3);
  pass(seconds(6));
  EXPECT_EQ(all<CloseLink>().size(), 2u);
  EXPECT_EQ(coordinator.members().size(), 0u);
}

TEST_F(CoordinatorTest, WhoIsRefusedIsRememberedUntilItFits) {
  CoordinatorConfig few = config();
  few.refused_max = 2;
  restart(few);
  for (int node = 1; node <= 3; ++node, now += seconds(1))
    for (int times = 0; times < 3; ++times) coordinator.node_refused(node_id(node), "another version", now);
  ASSERT_EQ(coordinator.refused().size(), 2u) << "the oldest went";
  EXPECT_FALSE(coordinator.refused().contains(node_id(1).key));
  EXPECT_EQ(coordinator.refused().at(node_id(3).key).times, 3u);
  EXPECT_EQ(coordinator.counters().refused, 9u);
  EXPECT_EQ(coordinator.events().last_number(), 3u) << "one that comes again and again is one event";
  const ClusterStatus status = status_of(coordinator, {}, now, 0);
  ASSERT_EQ(status.refused.size(), 2u);
  EXPECT_EQ(status.refused[0].name, "node-3") << "the latest first";
  EXPECT_EQ(parse_status(to_json(status))->refused[0].why, "another version");
  join(3);
  EXPECT_FALSE(coordinator.refused().contains(node_id(3).key));
}

TEST_F(CoordinatorTest, RoomIsMadeByStateAndAge) {
  join(0);
  // The last one left on purpose, the others died, the one with the largest key first.
  const int count = static_cast<int>(kNodesMax) - 1;
  for (int node = 1; node <= count; ++node) join(node);
  for (int node = count - 1; node >= 1; --node, now += milliseconds(1)) {
    say(node, Beat{});
    coordinator.link_closed(link_of(node), "gone", now);
  }
  say(count, Beat{});
  say(count, Leave{"done"});
  ASSERT_EQ(coordinator.members().size(), kNodesMax);
  join(1000);
  EXPECT_FALSE(coordinator.members().contains(node_id(count).key)) << "who left will not come back";
  now += seconds(1);
  join(1001, 2001);
  EXPECT_TRUE(coordinator.members().contains(node_id(1).key)) << "it died last";
  EXPECT_EQ(coordinator.members().size(), kNodesMax);
}

TEST_F(CoordinatorTest, WhileLinksAreMeasuredItSaysSo) {
  CoordinatorConfig measuring = config();
  measuring.measure_links = true;
  measuring.nodes_wanted = 3;
  restart(measuring);
  join(0);
  EXPECT_THAT(job().why_not_serving(), HasSubstr("waiting for nodes, 1 of 3"));
  join(1);
  join(2);
  pass(milliseconds(100));
  EXPECT_EQ(job().why_not_serving(), "measuring links, 0 of 3 done");
  const auto asked = sent<Measure>();
  ASSERT_EQ(asked.size(), 1u);
  for (const auto& [key, member] : coordinator.members())
    if (member.link == asked[0].first)
      coordinator.received(member.link, LinkReport{asked[0].second.peer, Errc::kOk, "", {1e-3, 1e8}}, now);
  EXPECT_EQ(job().why_not_serving(), "measuring links, 1 of 3 done");
}

TEST_F(CoordinatorTest, WhoCannotBeReachedIsToldAndShown) {
  CoordinatorConfig measuring = config();
  measuring.measure_links = true;
  restart(measuring);
  join(0);
  join(1);
  join(2);
  pass(milliseconds(100));
  ASSERT_EQ(sent<Measure>().size(), 1u);
  EXPECT_EQ(sent<Measure>()[0].first, link_of(0)) << "the coordinator's node tries first";
  const NodeId target = sent<Measure>()[0].second.peer;
  const int node = target == node_id(1) ? 1 : 2;
  say(0, LinkReport{target, Errc::kPeerLost, "Connection refused", {}});
  ASSERT_EQ(sent<Notice>().size(), 1u);
  EXPECT_EQ(sent<Notice>()[0].first, link_of(node));
  EXPECT_THAT(sent<Notice>()[0].second.text, HasSubstr("node-0 cannot reach this node at"));
  const ClusterStatus status = *parse_status(to_json(status_of(coordinator, {}, now, 0)));
  ASSERT_EQ(status.unreachable.size(), 1u);
  EXPECT_EQ(status.unreachable[0].from, "node-0");
  EXPECT_EQ(status.unreachable[0].to, target.name);
  EXPECT_EQ(status.unreachable[0].why, "Connection refused");
  EXPECT_TRUE(coordinator.members().at(target.key).here()) << "it stays a member, and is planned around";
  // It is gone with either of the two.
  say(node, Leave{"done"});
  EXPECT_TRUE(coordinator.unreachable().empty());
}

TEST_F(CoordinatorTest, SecondNodeWithTheSameIdentityIsRefused) {
  serve(2);
  join(1, 21, 555);
  ASSERT_EQ(sent<Refuse>().size(), 1u);
  EXPECT_FALSE(sent<Refuse>()[0].second.forever);
  EXPECT_EQ(coordinator.counters().duplicate_ids, 1u);
  EXPECT_NE(job().serving_epoch(), 0u);
  // But the same process over a new link, and anyone after a second of silence, is the node itself.
  clear();
  join(1, 22);
  EXPECT_EQ(sent<Welcome>().size(), 1u);
  EXPECT_EQ(all<CloseLink>()[0].link, 11u);
}

TEST_F(CoordinatorTest, ClocksAreCompared) {
  CoordinatorConfig with_clock = config();
  with_clock.unix_ms = 1'700'000'000'000;
  restart(with_clock);
  now += seconds(10);
  open(1);
  Join message = join_message(1);
  message.unix_ms = 1'700'000'070'500;
  coordinator.received(link_of(1), message, now);
  EXPECT_DOUBLE_EQ(coordinator.members().at(node_id(1).key).clock_ahead_s, 60.5);
}

TEST_F(CoordinatorTest, SlowPauseAndSlowStartHaveAnEnd) {
  serve(2);
  join(2);
  pass(milliseconds(500));
  const Epoch next = asked();
  coordinator.planned(next, placement({0, 1, 2}, 20), now);
  for (const int node : {0, 1, 2}) say(node, Prepared{next, Errc::kOk, ""});
  pass(milliseconds(5100));
  EXPECT_EQ(sent<Assign>().size(), 3u);
  ready({0, 1, 2}, next);
  started({0, 1}, next);
  pass(milliseconds(10'100));
  EXPECT_EQ(job().serving_epoch(), 0u);
  EXPECT_GT(asked(), next);
  const PlanQuestion question = all<MakePlan>().back().question;
  for (const PlanNode& node : question.nodes) EXPECT_NE(node.id, node_id(2));
}

TEST_F(CoordinatorTest, LinksAreMeasuredOnceEachAndOneAtATime) {
  CoordinatorConfig measuring = config();
  measuring.measure_links = true;
  restart(measuring);
  for (const int node : {0, 1, 2}) join(node);
  pass(milliseconds(500));
  ASSERT_EQ(sent<Measure>().size(), 1u);
  EXPECT_TRUE(all<MakePlan>().empty());
  for (size_t i = 0; i < 3; ++i) {
    const auto [link, order] = sent<Measure>().back();
    LinkReport report{.peer = order.peer};
    report.figures = {1e-4, 1e9, {}};
    coordinator.received(link, report, now);
    pass(milliseconds(50));
  }
  EXPECT_EQ(sent<Measure>().size(), 3u);
  pass(milliseconds(500));
  ASSERT_EQ(all<MakePlan>().size(), 1u);
  EXPECT_EQ(all<MakePlan>()[0].question.links.size(), 6u);
}

TEST_F(CoordinatorTest, AProcessThatEndsIsToldWithItsReason) {
  serve(2);
  coordinator.link_closed(link_of(1), "reset", now);
  coordinator.process_ended(node_id(1).name, "killed by signal 9", "it is started again", false, now);
  EXPECT_EQ(job().last_failure(), node_id(1).name + ": killed by signal 9");
  EXPECT_EQ(coordinator.members().at(node_id(1).key).last_failure, "killed by signal 9");
  EXPECT_EQ(coordinator.events().since(0).back().kind, EventKind::kEnded);
  coordinator.process_ended(node_id(1).name, "killed by signal 9", "it is not started again", true, now);
  EXPECT_EQ(job().last_failure(), node_id(1).name + ": killed by signal 9; it is not started again");
  EXPECT_EQ(coordinator.events().since(0).back().kind, EventKind::kGivenUp);
}

TEST_F(CoordinatorTest, TheFirstPlanDoesNotWaitForWhoIsGivenUp) {
  CoordinatorConfig with = config();
  with.nodes_wanted = 3;
  with.nodes_wait = std::chrono::minutes(10);
  restart(with);
  join(0);
  join(1);
  pass(seconds(5));
  EXPECT_TRUE(all<MakePlan>().empty());
  EXPECT_THAT(job().why_not_serving(), HasSubstr("2 of 3"));
  coordinator.process_ended("third", "ended with status 1", "it is started again", false, now);
  pass(seconds(1));
  EXPECT_TRUE(all<MakePlan>().empty());
  coordinator.process_ended("third", "ended with status 1", "it is not started again", true, now);
  pass(seconds(1));
  EXPECT_EQ(all<MakePlan>().size(), 1u);
}

TEST_F(CoordinatorTest, OnlyTheFirstPlanWaitsForAllNodes) {
  CoordinatorConfig with = config();
  with.nodes_wanted = 3;
  with.nodes_wait = std::chrono::minutes(10);
  restart(with);
  serve(3);
  coordinator.link_closed(link_of(1), "reset", now);
  coordinator.link_closed(link_of(2), "reset", now);
  pass(seconds(1));
  const Epoch alone = asked();
  coordinator.planned(alone, placement({0}, 10), now);
  ready({0}, alone);
  started({0}, alone);
  coordinator.steps_connected(alone, now);
  clear();
  join(1, 31, 99);  // node 2 stays away
  pass(seconds(1));
  ASSERT_FALSE(all<MakePlan>().empty());
  coordinator.planned(asked(), placement({0}, 10), now);  // node 1 is held back for a while
  pass(seconds(10));
  EXPECT_EQ(all<MakePlan>().back().question.nodes.size(), 2u);
}

TEST_F(CoordinatorTest, PlansAreComparedByTodaysFigures) {
  const Epoch epoch = serve(2);
  join(2);
  pass(seconds(1));
  Placement better = placement({0, 1, 2}, 10.5);  // the serving one was said to give 10
  better.current_tokens_per_s = 5;
  coordinator.planned(asked(), better, now);
  EXPECT_EQ(sent<Prepare>().size(), 3u);
  EXPECT_EQ(job().serving_epoch(), epoch);
  EXPECT_EQ(job().serving_placement()->tokens_per_s, 5);
}

TEST_F(CoordinatorTest, EverybodyHearsOfARemovedNode) {
  serve(3);
  ASSERT_TRUE(coordinator.remove_node("node-2", now).ok());
  const auto told = sent<Removed>();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_THAT(told[0].second.keys, ::testing::ElementsAre(node_id(2).key));
  clear();
  join(3);
  ASSERT_EQ(sent<Welcome>().size(), 1u);
  EXPECT_THAT(sent<Welcome>()[0].second.removed, ::testing::ElementsAre(node_id(2).key));
}

}  // namespace
}  // namespace butterfly::cluster
