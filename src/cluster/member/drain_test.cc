// A node is drained, event by event: its parts move away before it goes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "cluster/member/coordinator.h"
#include "cluster/member/status.h"
#include "cluster/testing/coordinator_driver.h"
#include "cluster/testing/member_samples.h"

namespace butterfly::cluster {
namespace {

using testing::node_id;

struct DrainTest : testing::CoordinatorDriver {
  Member::Drain drain_of(int node) const { return coordinator.members().at(node_id(node).key).drain; }
  // Node 1 of three is drained: a plan is asked for without it, and taken although it is slower.
  Epoch drain_and_plan(Epoch served, const Placement& next = placement({0, 2}, 1)) {
    EXPECT_TRUE(coordinator.drain_node("node-1", now).ok());
    pass(std::chrono::milliseconds(100));
    const PlanQuestion question = all<MakePlan>().back().question;
    EXPECT_EQ(question.nodes.size(), 2u);
    EXPECT_EQ(job().serving_epoch(), served) << "what is served goes on";
    EXPECT_EQ(drain_of(1), Member::Drain::kMoving);
    coordinator.planned(question.epoch, next, now);
    EXPECT_EQ(job().change_phase(), ChangePhase::kPreparing);
    return question.epoch;
  }
};

TEST_F(DrainTest, PartsMoveAwayWhileWhatIsServedGoesOn) {
  const Epoch served = serve(3);
  const Epoch next = drain_and_plan(served);
  for (const int node : {0, 2}) say(node, Prepared{next, Errc::kOk, ""});
  coordinator.steps_paused(next, now);
  ready({0, 2}, next);
  started({0, 2}, next);
  EXPECT_EQ(job().serving_epoch(), next);
  pass(std::chrono::milliseconds(100));
  EXPECT_EQ(drain_of(1), Member::Drain::kDone);
  EXPECT_TRUE(sent<Retired>().empty()) << "it did not ask";
  clear();
  pass(std::chrono::seconds(30));
  for (const MakePlan& plan : all<MakePlan>()) EXPECT_EQ(plan.question.nodes.size(), 2u);
  ASSERT_TRUE(coordinator.resume_node("node-1", now).ok());
  pass(std::chrono::milliseconds(100));
  EXPECT_EQ(all<MakePlan>().back().question.nodes.size(), 3u);
}

// Who takes over its pieces hears where their cache is, and the node that goes keeps it for them. One that is
// lost has nothing to give.
TEST_F(DrainTest, OthersHearWhoHadTheirPieces) {
  const auto holders = [&] {
    std::map<std::string, std::string> found;  // of each node: who had what
    for (const auto& [link, assign] : sent<Assign>())
      for (const Assignment::Holder& holder : assign.work.holders) {
        EXPECT_GE(holder.begin, assign.work.begin);
        EXPECT_LE(holder.end, assign.work.end);
        found[assign.work.self().node.name] += holder.node.name + " ";
      }
    return found;
  };
  const Epoch served = serve(3);
  EXPECT_TRUE(holders().empty()) << "nothing was served before";
  Placement without = placement({0, 2, 1}, 1);  // of the same pieces; the second has two of them
  without.stages.pop_back();
  without.stages.back().end = 3;
  const Epoch next = drain_and_plan(served, without);
  clear();
  for (const int node : {0, 2}) say(node, Prepared{next, Errc::kOk, ""});
  coordinator.steps_paused(next, now);
  std::string all_holders;
  for (const auto& [name, list] : holders()) {
    EXPECT_EQ(list.find(name), std::string::npos) << "nobody asks itself";
    all_holders += list;
  }
  EXPECT_THAT(all_holders, ::testing::HasSubstr("node-1"));
  ASSERT_EQ(sent<Release>().size(), 1u);
  EXPECT_TRUE(sent<Release>()[0].second.cache_wanted);
  ready({0, 2}, next);
  started({0, 2}, next);
  clear();
  coordinator.link_closed(link_of(2), "reset", now);
  pass(std::chrono::milliseconds(100));
  without.stages.pop_back();
  without.stages.back().end = 3;
  coordinator.planned(asked(), without, now);
  EXPECT_EQ(sent<Assign>().size(), 1u);
  for (const auto& [name, list] : holders()) EXPECT_EQ(list.find("node-2"), std::string::npos) << list;
  for (const auto& [link, release] : sent<Release>())
    EXPECT_FALSE(release.cache_wanted) << "node 1 had no part any more";
}

TEST_F(DrainTest, ANodeThatIsAboutToEndIsToldWhenItMay) {
  const Epoch served = serve(3);
  say(1, Retire{"a reboot"});
  pass(std::chrono::milliseconds(100));
  EXPECT_TRUE(sent<Retired>().empty());
  const Epoch next = asked();
  coordinator.planned(next, placement({0, 2}, 1), now);
  for (const int node : {0, 2}) say(node, Prepared{next, Errc::kOk, ""});
  coordinator.steps_paused(next, now);
  EXPECT_EQ(job().serving_epoch(), 0u);
  ready({0, 2}, next);
  started({0, 2}, next);
  pass(std::chrono::milliseconds(100));
  ASSERT_EQ(sent<Retired>().size(), 1u);
  EXPECT_EQ(sent<Retired>()[0].first, link_of(1));
  EXPECT_EQ(sent<Retired>()[0].second.text, "");
  EXPECT_EQ(coordinator.counters().halts, 0u);
  EXPECT_NE(next, served);
  // It comes back after its reboot, and is a node like any other.
  say(1, Leave{"rebooting"});
  join(1, 99, 77);
  EXPECT_EQ(drain_of(1), Member::Drain::kNo);
}

TEST_F(DrainTest, WhereNothingFitsWithoutItItKeepsItsPartAndHearsWhy) {
  const Epoch served = serve(3);
  say(1, Retire{""});
  pass(std::chrono::milliseconds(100));
  coordinator.planned(asked(), Status(Errc::kOutOfMemory, "needs 5 GiB more"), now);
  pass(std::chrono::milliseconds(100));
  EXPECT_EQ(job().serving_epoch(), served);
  ASSERT_EQ(sent<Retired>().size(), 1u) << "once";
  EXPECT_THAT(sent<Retired>()[0].second.text, ::testing::HasSubstr("5 GiB"));
  EXPECT_EQ(drain_of(1), Member::Drain::kMoving);
  // Another node comes: tried again by itself.
  clear();
  join(3);
  pass(std::chrono::seconds(1));
  const PlanQuestion question = all<MakePlan>().back().question;
  EXPECT_EQ(question.nodes.size(), 3u);
  for (const PlanNode& node : question.nodes) EXPECT_NE(node.id, node_id(1));
}

// Another node is lost meanwhile, and the model does not fit without the one that is about to go: better with
// it than not at all.
TEST_F(DrainTest, IsUsedWhileNothingElseFits) {
  serve(3);
  EXPECT_TRUE(coordinator.drain_node("node-1", now).ok());
  coordinator.link_closed(link_of(2), "reset", now);
  pass(std::chrono::milliseconds(100));
  EXPECT_EQ(all<MakePlan>().back().question.nodes.size(), 1u);
  coordinator.planned(asked(), Status(Errc::kOutOfMemory, "does not fit"), now);
  EXPECT_EQ(all<MakePlan>().back().question.nodes.size(), 2u);
}

TEST_F(DrainTest, RefusesInWords) {
  serve(2);
  EXPECT_THAT(coordinator.drain_node("node-0", now).text(), ::testing::HasSubstr("own node"));
  EXPECT_EQ(coordinator.drain_node("nobody", now).code(), Errc::kNotFound);
  EXPECT_EQ(coordinator.resume_node("nobody", now).code(), Errc::kNotFound);
  EXPECT_TRUE(coordinator.resume_node("node-1", now).ok()) << "it is not drained: nothing to do";
}

}  // namespace
}  // namespace butterfly::cluster
