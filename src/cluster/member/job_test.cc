// Two jobs on one cluster: each has its plan, and together they have no more than the nodes have.
#include "cluster/member/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/member/coordinator.h"
#include "cluster/testing/member_samples.h"

namespace butterfly::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using testing::join_message;
using testing::node_id;

constexpr uint64_t kGiB = uint64_t{1} << 30;  // join_message(): every node has eight

struct JobTest : ::testing::Test {
  JobTest() {
    for (const JobId id : {1u, 2u})
      coordinator.set_job(id, {fmt::format("id-{}", id), fmt::format("model-{}", id), ""}, now);
    for (int node = 0; node < 3; ++node) {
      coordinator.link_opened(link_of(node), node_id(node), now);
      coordinator.received(link_of(node), join_message(node), now);
    }
    pass(seconds(1));
  }
  static CoordinatorConfig config() {
    CoordinatorConfig config{.incarnation = 7, .self = node_id(0), .address = "10.0.0.0:4711"};
    config.numerics_id = 1;
    config.measure_links = false;
    return config;
  }
  static LinkNumber link_of(int node) { return static_cast<LinkNumber>(node) + 10; }

  void pass(Duration duration) {
    for (Duration done{}; done < duration; done += milliseconds(50)) {
      now += milliseconds(50);
      for (const auto& [key, member] : coordinator.members())
        if (member.here()) coordinator.received(member.link, Beat{}, now);
      coordinator.tick(now);
    }
  }
  template <typename T>
  std::vector<T> all() {
    for (CoordinatorAction& action : coordinator.take_actions()) actions.push_back(std::move(action));
    std::vector<T> found;
    for (const CoordinatorAction& action : actions) {
      if constexpr (requires { T::kType; }) {
        if (const auto* sent = std::get_if<SendToWorker>(&action))
          if (const T* one = std::get_if<T>(&sent->message)) found.push_back(*one);
      } else {
        if (const T* one = std::get_if<T>(&action)) found.push_back(*one);
      }
    }
    return found;
  }
  void clear() {
    all<MakePlan>();
    actions.clear();
  }
  const Job& job(JobId id) const { return *coordinator.job(id); }

  // A piece to each of these nodes, with so much memory.
  static Placement placement(const std::vector<int>& nodes, uint64_t bytes) {
    Placement out;
    out.pieces = static_cast<uint32_t>(nodes.size());
    out.tokens_per_s = 10;
    for (uint32_t i = 0; i < nodes.size(); ++i)
      out.stages.push_back(
          {.members = {{.node = node_id(nodes[i]), .memory_bytes = bytes}}, .begin = i, .end = i + 1});
    return out;
  }
  PlanQuestion asked() { return all<MakePlan>().back().question; }
  void load(const std::vector<int>& nodes, JobId id, Epoch epoch) {
    for (const int node : nodes)
      coordinator.received(link_of(node), Ready{epoch, Errc::kOk, "", 1, 1, id}, now);
    for (const int node : nodes) coordinator.received(link_of(node), Started{epoch, Errc::kOk, "", id}, now);
  }
  // The job that is asked about gets a piece on each of these nodes, and is served.
  Epoch serve(JobId id, const std::vector<int>& nodes, uint64_t bytes) {
    const PlanQuestion question = asked();
    EXPECT_EQ(question.job, id);
    coordinator.planned(question.epoch, placement(nodes, bytes), now);
    load(nodes, id, question.epoch);
    EXPECT_EQ(job(id).serving_epoch(), question.epoch);
    coordinator.steps_connected(question.epoch, now);
    pass(milliseconds(100));
    return question.epoch;
  }
  // Job 1 on nodes 0 and 1, job 2 on nodes 0 and 2.
  void serve_both() {
    first = serve(1, {1, 0}, 3 * kGiB);
    second = serve(2, {2, 0}, 2 * kGiB);
    clear();
  }
  static uint64_t free_on(const PlanQuestion& question, int node) {
    for (const PlanNode& row : question.nodes)
      if (row.id == node_id(node)) return row.ram_free_bytes;
    return UINT64_MAX;
  }

  TimePoint now{};
  Coordinator coordinator{config(), TimePoint{}};
  std::vector<CoordinatorAction> actions;
  Epoch first = 0, second = 0;
};

TEST_F(JobTest, OnePlansAfterTheOtherAndKnowsWhatItTook) {
  ASSERT_EQ(all<MakePlan>().size(), 1u) << "the second waits until it is known what the first takes";
  EXPECT_EQ(asked().job, 1u);
  EXPECT_EQ(free_on(asked(), 0), 8 * kGiB);
  coordinator.planned(asked().epoch, placement({1, 0}, 3 * kGiB), now);
  pass(milliseconds(100));
  ASSERT_EQ(all<MakePlan>().size(), 2u) << "while the first loads";
  EXPECT_EQ(asked().job, 2u);
  EXPECT_EQ(asked().model.name, "model-2");
  EXPECT_EQ(free_on(asked(), 0), 5 * kGiB);
  EXPECT_EQ(free_on(asked(), 2), 8 * kGiB);
}

TEST_F(JobTest, EachHasItsEpochAndItsSteps) {
  serve_both();
  EXPECT_NE(first, second);
  EXPECT_EQ(job(1).serving_epoch(), first);
  EXPECT_EQ(job(2).serving_epoch(), second);
  EXPECT_TRUE(job(1).connected());
  EXPECT_TRUE(job(2).connected());
  EXPECT_EQ(job(2).reserved_bytes(node_id(2)), 2 * kGiB);
  EXPECT_EQ(job(2).reserved_bytes(node_id(1)), 0u);
}

TEST_F(JobTest, ALossIsAMatterOfThoseWhoUsedTheNode) {
  serve_both();
  coordinator.link_closed(link_of(2), "reset", now);
  ASSERT_EQ(all<HaltSteps>().size(), 1u);
  EXPECT_EQ(all<HaltSteps>()[0].job, 2u);
  EXPECT_EQ(job(1).serving_epoch(), first);
  pass(milliseconds(100));
  EXPECT_EQ(asked().job, 2u);
  EXPECT_EQ(free_on(asked(), 0), 5 * kGiB);
}

TEST_F(JobTest, ALossHaltsEveryJobThatUsedTheNode) {
  serve_both();
  coordinator.received(link_of(0), Leave{"going"}, now);
  ASSERT_EQ(all<HaltSteps>().size(), 2u);
  EXPECT_EQ(job(1).serving_epoch(), 0u);
  EXPECT_EQ(job(2).serving_epoch(), 0u);
}

TEST_F(JobTest, AFailedLoadIsNothingToTheOther) {
  first = serve(1, {1, 0}, 3 * kGiB);
  const Epoch epoch = asked().epoch;
  coordinator.planned(epoch, placement({2, 1}, kGiB), now);
  coordinator.received(link_of(1), Ready{epoch, Errc::kOutOfMemory, "no room", 0, 1, 2}, now);
  EXPECT_TRUE(all<HaltSteps>().empty());
  EXPECT_EQ(job(1).serving_epoch(), first);
  pass(milliseconds(100));
  const PlanQuestion again = asked();
  EXPECT_EQ(again.job, 2u);
  EXPECT_EQ(free_on(again, 1), UINT64_MAX) << "the job leaves the node out";
  // The first would use it still, and so it is no worse off.
  EXPECT_EQ(job(1).question(now, false).nodes.size(), 3u);
  EXPECT_THAT(job(2).last_failure(), HasSubstr("no room"));
  EXPECT_EQ(job(1).last_failure(), "");
}

// Reports name their job and its epoch: a report about another job's epoch is none.
TEST_F(JobTest, ReportsOfOneJobDoNotCountForAnother) {
  const Epoch epoch = asked().epoch;
  coordinator.planned(epoch, placement({1, 0}, kGiB), now);
  const uint64_t dropped = coordinator.counters().old_epochs;
  load({0, 1}, 2, epoch);
  EXPECT_EQ(coordinator.counters().old_epochs, dropped + 4);
  EXPECT_EQ(job(1).change_phase(), ChangePhase::kLoading);
  load({0, 1}, 1, epoch);
  EXPECT_EQ(job(1).serving_epoch(), epoch);
}

TEST_F(JobTest, TroubleHaltsTheJobItIsAbout) {
  serve_both();
  coordinator.received(link_of(1), Trouble{second, node_id(0), "reset", 2}, now);
  EXPECT_EQ(coordinator.counters().unfounded, 1u) << "it has no part in that job";
  coordinator.received(link_of(1), Trouble{first, node_id(0), "reset", 2}, now);
  EXPECT_TRUE(all<HaltSteps>().empty()) << "not an epoch of that job";
  coordinator.received(link_of(2), Trouble{second, node_id(0), "reset", 2}, now);
  ASSERT_EQ(all<HaltSteps>().size(), 1u);
  EXPECT_EQ(all<HaltSteps>()[0].epoch, second);
  EXPECT_EQ(job(1).serving_epoch(), first);
}

TEST_F(JobTest, AJobThatEndsLeavesItsRoomToTheOthers) {
  serve_both();
  coordinator.set_job(1, {}, now);
  EXPECT_EQ(coordinator.job(1), nullptr);
  ASSERT_EQ(all<HaltSteps>().size(), 1u);
  EXPECT_EQ(all<HaltSteps>()[0].job, 1u);
  ASSERT_EQ(all<Release>().size(), 3u) << "every node";
  EXPECT_EQ(all<Release>()[0].job, 1u);
  EXPECT_GT(all<Release>()[0].epoch, second);
  EXPECT_EQ(job(2).serving_epoch(), second);
  pass(milliseconds(100));
  EXPECT_EQ(asked().job, 2u) << "it could be better now";
  EXPECT_EQ(free_on(asked(), 0), 8 * kGiB);
  EXPECT_EQ(all<Release>().size(), 3u) << "what is served goes on meanwhile";
}

// Job 1 is halted and fits nowhere: it keeps its stage on node 0 for the case that node 1 comes back, until
// job 2 needs the room.
TEST_F(JobTest, WhatIsLeftOfAHaltedJobMakesRoomForAnother) {
  first = serve(1, {1, 0}, 6 * kGiB);
  clear();
  coordinator.link_closed(link_of(1), "reset", now);
  pass(milliseconds(100));
  while (asked().job == 1) {
    coordinator.planned(asked().epoch, Status(Errc::kOutOfMemory, "does not fit"), now);
    pass(milliseconds(50));
  }
  EXPECT_TRUE(all<Release>().empty()) << "nobody needs it yet";
  const Epoch epoch = asked().epoch;
  EXPECT_EQ(free_on(asked(), 0), 8 * kGiB);
  coordinator.planned(epoch, placement({0}, 7 * kGiB), now);
  std::vector<Release> released;
  for (const Release& release : all<Release>())
    if (release.job == 1) released.push_back(release);
  ASSERT_EQ(released.size(), 1u);
  EXPECT_EQ(released[0].epoch, epoch);
  EXPECT_EQ(std::get<SendToWorker>(actions.back()).message.index(), ToWorker(Assign{}).index())
      << "after that";
}

// Recovery does not wait for a plan that would only be better.
TEST_F(JobTest, ALossGoesBeforeAPlanUnderWay) {
  serve_both();
  coordinator.link_opened(link_of(3), node_id(3), now);
  coordinator.received(link_of(3), join_message(3), now);
  pass(seconds(1));
  const Epoch better = asked().epoch;
  ASSERT_EQ(asked().job, 1u);
  coordinator.steps_failed(second, node_id(2), "reset", now);
  pass(milliseconds(300));
  EXPECT_EQ(asked().job, 2u) << "while the other plan is still being made";
  coordinator.planned(better, placement({3, 0}, kGiB), now);
  EXPECT_EQ(job(1).change_phase(), std::nullopt) << "too late";
  coordinator.planned(asked().epoch, placement({3, 0}, kGiB), now);
  pass(milliseconds(50));
  EXPECT_EQ(asked().job, 1u) << "and then the other again";
  EXPECT_EQ(free_on(asked(), 3), 7 * kGiB);
}

TEST_F(JobTest, WhatIsNotServedIsPlannedFirst) {
  serve_both();
  coordinator.link_closed(link_of(2), "reset",
                          now);  // job 2 is lost, and job 1 could be better for some reason
  coordinator.link_opened(link_of(3), node_id(3), now);
  coordinator.received(link_of(3), join_message(3), now);
  pass(seconds(1));
  EXPECT_EQ(all<MakePlan>().front().question.job, 2u);
}

// A model that took the room of an earlier one while that could not be placed gives it back, but not before
// the earlier one has tried for a while to do without.
TEST_F(JobTest, ALaterOneGivesItsMemoryToAnEarlierOneThatFindsNoPlan) {
  serve_both();
  coordinator.link_closed(link_of(1), "reset", now);
  const auto no_plan = [&] {
    clear();
    for (int i = 0; all<MakePlan>().empty() && i < 100; ++i) pass(milliseconds(50));
    const PlanQuestion question = asked();
    EXPECT_EQ(question.job, 1u);
    coordinator.planned(question.epoch, {Errc::kOutOfMemory, "it does not fit"}, now);
    return free_on(question, 2);
  };
  // Each attempt asks twice: the second time with nodes that are held back.
  TimePoint began = now;
  int tries = 0;
  while (tries < 100 && no_plan() == 6 * kGiB) ++tries;
  EXPECT_GE(tries, 5);
  EXPECT_LT(tries, 20);
  EXPECT_GE(now - began, seconds(1)) << "most that goes wrong is over by then";
  EXPECT_EQ(job(2).serving_epoch(), second) << "as long as there is no plan, it goes on";
  clear();
  for (int i = 0; all<MakePlan>().empty() && i < 100; ++i) pass(milliseconds(50));
  ASSERT_EQ(free_on(asked(), 2), 8 * kGiB);
  const Epoch claimed = asked().epoch;
  coordinator.planned(claimed, placement({2, 0}, 7 * kGiB), now);
  ASSERT_EQ(all<HaltSteps>().size(), 1u);
  EXPECT_EQ(all<HaltSteps>()[0].job, 2u);
  EXPECT_THAT(job(2).why_not_serving(), HasSubstr("job 1 needs its memory"));
  load({2, 0}, 1, claimed);
  EXPECT_EQ(job(1).serving_epoch(), claimed);
  // The later one never takes it back.
  for (int i = 0; i < 50; ++i) {
    clear();
    for (int wait = 0; all<MakePlan>().empty() && wait < 200; ++wait) pass(milliseconds(50));
    if (asked().job != 2) continue;
    ASSERT_EQ(free_on(asked(), 2), kGiB);
    coordinator.planned(asked().epoch, {Errc::kOutOfMemory, "it does not fit"}, now);
  }
  EXPECT_EQ(job(1).serving_epoch(), claimed);
}

TEST_F(JobTest, OnlyAsManyLaterOnesAsNeededGiveWay) {
  serve_both();
  coordinator.set_job(3, {"id-3", "model-3", ""}, now);
  pass(milliseconds(100));
  const Epoch third = serve(3, {2}, 2 * kGiB);
  coordinator.link_closed(link_of(1), "reset", now);
  for (int i = 0; i < 50; ++i) {
    clear();
    for (int wait = 0; all<MakePlan>().empty() && wait < 200; ++wait) pass(milliseconds(50));
    ASSERT_EQ(asked().job, 1u);
    if (free_on(asked(), 2) == 8 * kGiB) break;
    coordinator.planned(asked().epoch, {Errc::kOutOfMemory, "it does not fit"}, now);
  }
  coordinator.planned(asked().epoch, placement({2, 0}, 6 * kGiB), now);
  EXPECT_EQ(job(3).serving_epoch(), 0u) << "the last goes first";
  EXPECT_EQ(job(2).serving_epoch(), second) << "and that was enough";
  EXPECT_NE(third, 0u);
}

// A training run beside what is served, and after it: it takes what is left, and gives it back when a model
// needs it.
struct TrainingTest : JobTest {
  static constexpr JobId kRun = kFirstTraining;
  // Models on nodes 0, 1 and 0, 2; the run has three gigabytes on each of 1 and 2.
  void train() {
    serve_both();
    coordinator.set_job(kRun, {"run", "training run", ""}, now);
    pass(milliseconds(100));
    EXPECT_EQ(free_on(asked(), 1), 5 * kGiB) << "what the models leave";
    run = serve(kRun, {1, 2}, 3 * kGiB);
    clear();
    coordinator.set_job(3, {"id-3", "model-3", ""}, now);
    pass(milliseconds(100));
    ASSERT_EQ(asked().job, 3u);
    EXPECT_EQ(free_on(asked(), 1), 5 * kGiB) << "what the run has is not taken off";
  }
  Epoch run = 0;
};

TEST_F(TrainingTest, IsLeftAloneByAModelThatFitsBesideIt) {
  train();
  serve(3, {1, 0}, 2 * kGiB);
  EXPECT_EQ(job(kRun).serving_epoch(), run);
  EXPECT_TRUE(all<HaltSteps>().empty());
}

TEST_F(TrainingTest, GivesWayToAModelAndGoesOnInWhatIsLeft) {
  train();
  coordinator.planned(asked().epoch, placement({1, 0}, 4 * kGiB), now);
  ASSERT_EQ(all<HaltSteps>().size(), 1u);
  EXPECT_EQ(all<HaltSteps>()[0].job, kRun);
  EXPECT_THAT(job(kRun).why_not_serving(), HasSubstr("job 3 needs its memory"));
  // Freed before it is taken.
  const auto at = [&](auto wanted) {
    for (size_t i = 0; i < actions.size(); ++i)
      if (const auto* sent = std::get_if<SendToWorker>(&actions[i]))
        if (wanted(sent->message)) return i;
    return actions.size();
  };
  const size_t freed = at([](const ToWorker& m) {
    const Release* release = std::get_if<Release>(&m);
    return release != nullptr && release->job == kRun;
  });
  const size_t taken = at([](const ToWorker& m) { return std::holds_alternative<Assign>(m); });
  EXPECT_LT(freed, taken);
  ASSERT_LT(taken, actions.size());
  pass(milliseconds(100));
  ASSERT_EQ(asked().job, kRun) << "while the model loads";
  EXPECT_EQ(free_on(asked(), 1), kGiB);
  EXPECT_EQ(free_on(asked(), 2), 6 * kGiB);
}

TEST_F(TrainingTest, WaitsWithItsPlanUntilAModelHasOne) {
  serve_both();
  coordinator.set_job(kRun, {"run", "training run", ""}, now);
  pass(milliseconds(100));
  const Epoch planning = asked().epoch;
  ASSERT_EQ(asked().job, kRun);
  coordinator.set_job(3, {"id-3", "model-3", ""}, now);
  pass(milliseconds(100));
  EXPECT_EQ(asked().job, 3u) << "while the run's is still being made";
  coordinator.planned(planning, placement({1, 2}, kGiB), now);
  EXPECT_EQ(job(kRun).change_phase(), std::nullopt) << "too late";
}

}  // namespace
}  // namespace butterfly::cluster
