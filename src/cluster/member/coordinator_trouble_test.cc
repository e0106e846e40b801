// Links and pairs of nodes that do not work: whom the coordinator blames, and how soon it tries again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/member/coordinator.h"
#include "cluster/testing/coordinator_driver.h"
#include "cluster/testing/member_samples.h"

namespace butterfly::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using testing::join_message;
using testing::node_id;

struct CoordinatorTroubleTest : testing::CoordinatorDriver {};

TEST_F(CoordinatorTroubleTest, TroubleBetweenStagesHaltsAndPlansAgain) {
  const Epoch before = serve(3);
  say(1, Trouble{before, node_id(2), "reset"});
  EXPECT_EQ(all<HaltSteps>().size(), 1u);
  EXPECT_TRUE(all<MakePlan>().empty());  // the death of node 2 may be on its way
  pass(milliseconds(400));
  ASSERT_EQ(all<MakePlan>().size(), 1u);
  EXPECT_EQ(all<MakePlan>()[0].question.nodes.size(), 3u);
  say(1, Trouble{before, node_id(2), "reset"});
  EXPECT_EQ(coordinator.counters().old_epochs, 1u);
}

// Faults every few seconds, each of another link: nobody waits longer for the next plan because of those
// before.
TEST_F(CoordinatorTroubleTest, AfterAPlanThatWorkedForSecondsTheNextComesAtOnce) {
  Epoch epoch = serve(3);
  for (int i = 0; i < 8; ++i) {
    pass(seconds(3));
    clear();
    say(1, Trouble{epoch, {}, "reset"});
    pass(milliseconds(400));
    ASSERT_EQ(all<MakePlan>().size(), 1u) << i;
    epoch = all<MakePlan>()[0].question.epoch;
    coordinator.planned(epoch, placement({0, 1, 2}, 10), now);
    ready({0, 1, 2}, epoch);
    started({0, 1, 2}, epoch);
    coordinator.steps_connected(epoch, now);
  }
}

// Damaged frames, a second apart: each costs one plan, and the time until the next one does not grow.
TEST_F(CoordinatorTroubleTest, ALinkThatBreaksEverySecondIsMadeAgainAtOnce) {
  Epoch epoch = serve(3);
  for (int i = 0; i < 20; ++i) {
    const bool bad_start = i < 8;  // first some plans that break as soon as they run
    if (!bad_start) pass(seconds(1));
    clear();
    say(1, Trouble{epoch, {}, "bad record mac"});
    pass(bad_start || i == 8 ? seconds(6) : milliseconds(400));
    ASSERT_EQ(all<MakePlan>().size(), 1u) << i;
    EXPECT_EQ(all<MakePlan>()[0].question.nodes.size(), 3u) << i;
    epoch = all<MakePlan>()[0].question.epoch;
    coordinator.planned(epoch, placement({0, 1, 2}, 10), now);
    ready({0, 1, 2}, epoch);
    started({0, 1, 2}, epoch);
    coordinator.steps_connected(epoch, now);
  }
}

// Its process never ended, only its link did: it has its part again after a second, not after five. One that
// died and was started again waits, and so does one whose link breaks as soon as it is there.
TEST_F(CoordinatorTroubleTest, WhoOnlyLostItsLinkIsSoonUsedAgain) {
  serve(3);
  const auto left_out = [&](LinkNumber from, LinkNumber to, uint64_t instance) {
    coordinator.link_closed(from, "bad record mac", now);
    join(2, to, instance);
    return coordinator.members().at(node_id(2).key).hold.until - now;
  };
  const uint64_t same = join_message(2).instance;
  LinkNumber link = link_of(2);
  for (const int hold : {1, 1, 1, 2, 2, 2, 2, 2, 2, 4}) {
    EXPECT_EQ(left_out(link, link + 70, same), seconds(hold)) << "it worked for half a second each time";
    link += 70;
    now += seconds(hold) + milliseconds(500);
  }
  now += seconds(20);
  EXPECT_EQ(left_out(link, 7, same), seconds(1)) << "it worked for long";
  now += seconds(8);
  EXPECT_EQ(left_out(7, 8, same + 1), seconds(5)) << "another process";
}

// A bad moment now and then does not add up; one after the other does.
TEST_F(CoordinatorTroubleTest, APairThatWorkedForLongEnoughRestsNoLonger) {
  Membership members(config(), now);
  const auto rests = [&](Duration after) {
    now += after;
    members.note_cut(node_id(1), node_id(2), now);
    Duration rest{};
    while (!members.broken_pairs(false, now + rest).empty()) rest += seconds(1);
    return rest;
  };
  now += std::chrono::hours(1);
  EXPECT_EQ(rests(seconds(0)), seconds(5));
  EXPECT_EQ(rests(seconds(6)), seconds(10));
  EXPECT_EQ(rests(seconds(31)), seconds(5)) << "after 21 s of work";
}

TEST_F(CoordinatorTroubleTest, ALinkThatPassesNothingIsAvoidedForAWhile) {
  say(1, Trouble{serve(3), node_id(2), "it acknowledges nothing"});
  ASSERT_EQ(job().question(now).broken.size(), 1u);
  EXPECT_EQ(job().question(now).broken[0], std::pair(node_id(1).key, node_id(2).key));
  // A plan without it is served until then; then one is looked for that may use it.
  pass(milliseconds(400));
  const auto serve_without = [&](Epoch epoch) {
    coordinator.planned(epoch, placement({0, 1}, 10), now);
    ready({0, 1}, epoch);
    started({0, 1}, epoch);
    coordinator.steps_connected(epoch, now);
    clear();
  };
  serve_without(asked());
  pass(config().hold_min - seconds(1));
  EXPECT_TRUE(all<MakePlan>().empty());
  pass(seconds(1));
  ASSERT_EQ(all<MakePlan>().size(), 1u);
  EXPECT_TRUE(all<MakePlan>()[0].question.broken.empty());
  // If it is cut again, it rests twice as long.
  const Epoch next = asked();
  coordinator.planned(next, placement({0, 1, 2}, 20), now);
  for (const int node : {0, 1, 2}) say(node, Prepared{next, Errc::kOk, ""});
  coordinator.steps_paused(next, now);
  ready({0, 1, 2}, next);
  started({0, 1, 2}, next);
  coordinator.steps_connected(next, now);
  say(1, Trouble{next, node_id(2), "it acknowledges nothing"});
  EXPECT_EQ(job().question(now + config().hold_min).broken.size(), 1u);
  EXPECT_TRUE(job().question(now + 2 * config().hold_min).broken.empty());
}

// The model does not fit without the node behind the cut: it is tried another way at once.
TEST_F(CoordinatorTroubleTest, ANodeThatIsNeededIsTriedThroughOthersAtOnce) {
  say(1, Trouble{serve(3), node_id(2), "it acknowledges nothing"});
  pass(milliseconds(400));
  coordinator.planned(asked(), {Errc::kOutOfMemory, "does not fit"}, now);
  pass(milliseconds(100));
  ASSERT_EQ(all<MakePlan>().size(), 2u);
  EXPECT_THAT(all<MakePlan>()[1].question.broken,
              ::testing::ElementsAre(std::pair(node_id(1).key, node_id(2).key)));
}

// Node 2 hears nothing from node 1: the way from 1 to 2 is broken, and neither of them held back. Its
// neighbours see their links close, and may be heard first.
TEST_F(CoordinatorTroubleTest, WhoHearsNothingNamesTheWayToItselfAlsoBehindOthers) {
  for (const bool first : {true, false}) {
    restart(config());
    const Epoch epoch = serve(3);
    if (!first) {
      say(1, Trouble{epoch, {}, "a link was closed"});
      EXPECT_EQ(job().serving_epoch(), 0u);
    }
    say(2, Trouble{epoch, node_id(1), "nothing has come from it"});
    EXPECT_EQ(job().serving_epoch(), 0u);
    EXPECT_EQ(coordinator.counters().old_epochs, 0u);
    say(2, Trouble{epoch, node_id(1), "nothing has come from it"});
    EXPECT_EQ(coordinator.counters().old_epochs, 1u) << "once";
    say(4, Trouble{epoch, node_id(1), "nor here"});
    pass(seconds(1));
    const PlanQuestion question = all<MakePlan>().back().question;
    EXPECT_EQ(question.nodes.size(), 3u);
    // Whether others still reach node 2 nobody knows: they are not asked to find out while nothing is served.
    EXPECT_THAT(question.broken, ::testing::UnorderedElementsAre(std::pair(node_id(1).key, node_id(2).key),
                                                                 std::pair(node_id(0).key, node_id(2).key)));
    bool told = false;
    for (const ClusterEvent& event : coordinator.events().since(0))
      told = told || event.text.find("node-2 has trouble with node-1: nothing has come") != std::string::npos;
    EXPECT_TRUE(told);
  }
}

// A laptop behind a firewall: the chain that works goes on, and the next plan does not put it there again.
TEST_F(CoordinatorTroubleTest, AChainThatWorksIsNotLeftForOneThatCannotBeConnected) {
  const Epoch old_epoch = serve(2);
  join(2);
  pass(seconds(1));
  const Epoch epoch = asked();
  EXPECT_TRUE(all<MakePlan>().back().question.current.has_value());
  coordinator.planned(epoch, placement({0, 1, 2}, 100), now);
  ASSERT_EQ(sent<Prepare>().size(), 3u);
  say(0, Prepared{epoch, Errc::kOk, "", {}});
  say(2, Prepared{epoch, Errc::kOk, "", {}});
  say(1, Prepared{epoch, Errc::kPeerLost, "connection refused", node_id(2)});
  EXPECT_EQ(job().serving_epoch(), old_epoch);
  EXPECT_TRUE(all<PauseSteps>().empty());
  EXPECT_TRUE(all<HaltSteps>().empty());
  EXPECT_THAT(job().last_failure(), HasSubstr("node-1 cannot reach node-2"));
  EXPECT_EQ(sent<Abandon>().size(), 3u) << "nobody goes on preparing";
  clear();
  pass(seconds(2));
  ASSERT_FALSE(all<MakePlan>().empty());
  const PlanQuestion question = all<MakePlan>().back().question;
  EXPECT_THAT(question.broken, ::testing::ElementsAre(std::pair(node_id(1).key, node_id(2).key)));
  EXPECT_EQ(question.nodes.size(), 3u) << "neither of the two is to blame";
}

TEST_F(CoordinatorTroubleTest, WhoCannotBeReachedIsNotANeighbour) {
  CoordinatorConfig with = config();
  with.measure_links = true;
  restart(with);
  join(0);
  join(1);
  pass(milliseconds(100));
  ASSERT_EQ(sent<Measure>().size(), 1u);
  say(0, LinkReport{node_id(1), Errc::kPeerLost, "connection refused", {}});
  pass(seconds(1));
  ASSERT_FALSE(all<MakePlan>().empty());
  const auto broken = all<MakePlan>().back().question.broken;
  EXPECT_THAT(broken, ::testing::ElementsAre(std::pair(node_id(0).key, node_id(1).key)));
  bool told = false;
  for (const ClusterEvent& event : coordinator.events().since(0))
    told = told || (event.kind == EventKind::kUnreachable && event.text.find("node-1") != std::string::npos);
  EXPECT_TRUE(told);
}

TEST_F(CoordinatorTroubleTest, OnlyNeighboursCanSayThatAChainIsBroken) {
  const Epoch epoch = serve(4);
  join(4);  // has no part in it
  say(4, Trouble{epoch, node_id(1), "I do not like it"});
  say(1, Trouble{epoch, node_id(3), "not next to it"});
  EXPECT_EQ(job().serving_epoch(), epoch);
  EXPECT_EQ(coordinator.counters().unfounded, 2u);
  say(1, Trouble{epoch, node_id(2), "reset"});
  EXPECT_EQ(job().serving_epoch(), 0u);
}

TEST_F(CoordinatorTroubleTest, WhoHasTroubleWithEverybodyIsTheTrouble) {
  join(0);
  for (int i = 1; i < 6; ++i) join(i);
  pass(seconds(1));
  for (int other = 1; other < 4; ++other) {
    const Epoch epoch = asked();
    EXPECT_EQ(all<MakePlan>().back().question.nodes.size(), 6u) << other;
    coordinator.planned(epoch, placement({other, 5, 0}, 10), now);
    ready({other, 5, 0}, epoch);
    started({other, 5, 0}, epoch);
    coordinator.steps_connected(epoch, now);
    clear();
    say(5, Trouble{epoch, node_id(other), "reset"});
    pass(seconds(2));
  }
  EXPECT_EQ(all<MakePlan>().back().question.nodes.size(), 5u);
  EXPECT_THAT(coordinator.members().at(node_id(5).key).last_failure, HasSubstr("3 neighbours"));
}

}  // namespace
}  // namespace butterfly::cluster
