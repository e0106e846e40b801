// A worker, event by event.
#include "cluster/member/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/testing/member_samples.h"

namespace butterfly::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::assignment;
using testing::node_id;

struct WorkerTest : ::testing::Test {
  WorkerTest()
      : worker({.instance = 5, .coordinator = "10.0.0.1:1", .join = testing::join_message(1)}, now) {}

  template <typename T>
  std::vector<T> take() {
    for (WorkerAction& action : worker.take_actions()) actions.push_back(std::move(action));
    std::vector<T> found;
    for (const WorkerAction& action : actions)
      if (const T* one = std::get_if<T>(&action)) found.push_back(*one);
    return found;
  }
  template <typename M>
  std::vector<M> sent() {
    std::vector<M> found;
    for (const SendToCoordinator& action : take<SendToCoordinator>())
      if (const M* one = std::get_if<M>(&action.message)) found.push_back(*one);
    return found;
  }
  // What the last beat says of its only job.
  JobBeat last_beat() {
    const Beat beat = sent<Beat>().back();
    EXPECT_EQ(beat.jobs.size(), 1u);
    return beat.jobs.empty() ? JobBeat{} : beat.jobs.front();
  }
  void clear() {
    worker.take_actions();
    actions.clear();
  }
  void pass(Duration duration, bool coordinator_speaks = true) {
    for (Duration done{}; done < duration; done += milliseconds(50)) {
      now += milliseconds(50);
      if (coordinator_speaks) worker.received(link, Alive{7}, now);
      worker.tick(now);
      take<GiveUp>();
    }
  }
  void join(Incarnation incarnation = 7) {
    while (worker.state() == Worker::State::kWaiting) {
      now += milliseconds(50);
      worker.tick(now);
    }
    worker.connected(take<ConnectToCoordinator>().back().attempt, ++link, now);
    worker.received(link, Welcome{incarnation, milliseconds(250)}, now);
  }
  void run(Epoch epoch) {
    worker.received(link, Assign{7, assignment(epoch)}, now);
    worker.loaded(epoch, Status(), 100, now);
    worker.received(link, Go{7, epoch}, now);
    worker.started(epoch, Status(), now);
  }

  TimePoint now{};
  LinkNumber link = 0;
  Worker worker;
  std::vector<WorkerAction> actions;
};

TEST_F(WorkerTest, JoinsLoadsAndRuns) {
  join();
  ASSERT_EQ(sent<Join>().size(), 1u);
  EXPECT_EQ(sent<Join>()[0].instance, 5u);
  EXPECT_EQ(worker.state(), Worker::State::kJoined);
  worker.received(link, Assign{7, assignment(10)}, now);
  ASSERT_EQ(take<LoadStage>().size(), 1u);
  EXPECT_FALSE(worker.may_run(10));
  worker.received(link, Go{7, 10}, now);  // before it is loaded: not yet
  EXPECT_TRUE(take<RunStage>().empty());
  now += milliseconds(30);
  worker.loaded(10, Status(), 100, now);
  ASSERT_EQ(sent<Ready>().size(), 1u);
  EXPECT_EQ(sent<Ready>()[0].ms, 30u);
  worker.received(link, Go{7, 10}, now);
  EXPECT_EQ(take<RunStage>().size(), 1u);
  EXPECT_TRUE(worker.may_run(10));
  EXPECT_FALSE(worker.may_run(9));
  worker.started(10, Status(), now);
  EXPECT_EQ(sent<Started>().size(), 1u);
}

TEST_F(WorkerTest, ItsPatienceIsTheCoordinators) {
  join();
  worker.received(link, Welcome{7, milliseconds(250), seconds(10), {}}, now);
  EXPECT_EQ(worker.silent_after(), seconds(10));
  pass(seconds(9), false);
  EXPECT_EQ(worker.state(), Worker::State::kJoined);
  pass(seconds(2), false);
  EXPECT_NE(worker.state(), Worker::State::kJoined);
  // Nobody is told to wait for ever.
  link = 0;
  join();
  worker.received(link, Welcome{7, milliseconds(250), std::chrono::minutes(50), {}}, now);
  EXPECT_EQ(worker.silent_after(), std::chrono::minutes(2));
}

TEST_F(WorkerTest, ANoticeIsKeptUntilItIsTakenBack) {
  join();
  worker.received(link, Notice{6, "of another life"}, now);
  EXPECT_EQ(worker.notice(), "");
  worker.received(link, Notice{7, "a cannot reach this node"}, now);
  EXPECT_EQ(worker.notice(), "a cannot reach this node");
  worker.received(link, Notice{7, ""}, now);
  EXPECT_EQ(worker.notice(), "");
}

TEST_F(WorkerTest, BeatsCarryProgress) {
  join();
  clear();
  worker.set_progress(kFirstJob, {.progress = 3, .pending = 2});
  worker.set_memory(9);
  pass(seconds(1));
  const auto beats = sent<Beat>();
  EXPECT_EQ(beats.size(), 4u);
  EXPECT_TRUE(beats.back().jobs.empty());  // of a stage that is over: nothing runs here
  EXPECT_EQ(beats.back().ram_free_bytes, 9u);
  run(10);
  worker.set_progress(kFirstJob, {.progress = 4, .pending = 2});
  pass(milliseconds(300));
  EXPECT_EQ(last_beat().pending, 2u);
  // Loading is work too: standing still must show.
  worker.received(link, Assign{7, assignment(12)}, now);
  worker.set_progress(kFirstJob, {.load_done = 50, .load_total = 100});
  pass(milliseconds(300));
  EXPECT_EQ(last_beat().phase, WorkerPhase::kLoading);
  EXPECT_EQ(last_beat().pending, 1u);
  EXPECT_EQ(last_beat().progress, 50u);
}

TEST_F(WorkerTest, ObeysTheNewestEpochOnly) {
  join();
  run(10);
  worker.received(link, Assign{7, assignment(12)}, now);
  EXPECT_EQ(take<StopStage>().back().epoch, 10u);
  EXPECT_EQ(take<LoadStage>().back().work.epoch, 12u);
  worker.received(link, Assign{7, assignment(11)}, now);
  worker.received(link, Assign{7, assignment(12)}, now);  // twice
  worker.received(link, Release{7, 11}, now);
  worker.received(link, Go{7, 10}, now);
  EXPECT_EQ(worker.counters().old_epochs, 4u);
  EXPECT_EQ(worker.epoch(kFirstJob), 12u);
  worker.loaded(10, Status(), 1, now);  // a load that was stopped
  EXPECT_EQ(worker.counters().late_reports, 1u);
  EXPECT_EQ(worker.phase(), WorkerPhase::kLoading);
  worker.received(link, Release{7, 13}, now);
  EXPECT_EQ(worker.epoch(kFirstJob), 0u);
  EXPECT_EQ(take<FreeWeights>().size(), 1u);
}

Assignment assignment_of(JobId job, Epoch epoch) {
  Assignment work = assignment(epoch);
  work.job = job;
  return work;
}

// Two jobs, each with a plan of its own: what happens to one is nothing to the other.
TEST_F(WorkerTest, JobsDoNotTouchEachOther) {
  join();
  run(10);
  worker.received(link, Assign{7, assignment_of(2, 11)}, now);
  EXPECT_TRUE(worker.may_run(10)) << "the first goes on while the second loads";
  EXPECT_TRUE(take<StopStage>().empty());
  EXPECT_TRUE(take<FreeWeights>().empty());
  worker.loaded(11, Status(), 100, now);
  EXPECT_EQ(sent<Ready>().back().job, 2u);
  worker.received(link, Go{7, 11, kFirstJob}, now);
  EXPECT_FALSE(worker.may_run(11)) << "an epoch of another job";
  worker.received(link, Go{7, 11, 2}, now);
  EXPECT_TRUE(worker.may_run(11));
  worker.started(11, Status(), now);
  EXPECT_EQ(sent<Started>().back().job, 2u);

  worker.set_progress(1, {.progress = 5, .pending = 1});
  worker.set_progress(2, {.progress = 6});
  pass(milliseconds(300));
  const Beat beat = sent<Beat>().back();
  ASSERT_EQ(beat.jobs.size(), 2u);
  EXPECT_EQ(beat.jobs[0].epoch, 10u);
  EXPECT_EQ(beat.jobs[0].pending, 1u);
  EXPECT_EQ(beat.jobs[1].job, 2u);
  EXPECT_EQ(beat.jobs[1].progress, 6u);

  // An older epoch than the other job's is not old.
  worker.received(link, Assign{7, assignment_of(2, 20)}, now);
  worker.received(link, Prepare{7, assignment(15)}, now);
  EXPECT_EQ(take<PrepareWeights>().back().work.epoch, 15u);
  worker.loaded(20, {Errc::kOutOfMemory, "no room"}, 0, now);
  EXPECT_EQ(sent<Ready>().back().code, Errc::kOutOfMemory);
  EXPECT_TRUE(worker.may_run(10)) << "a failed load of one job is nothing to the other";
  worker.received(link, Release{7, 21, 2}, now);
  EXPECT_EQ(take<FreeWeights>().back().job, 2u);
  EXPECT_TRUE(worker.may_run(10));
  worker.stage_failed(10, node_id(3), "reset", now);
  EXPECT_EQ(sent<Trouble>().back().job, kFirstJob);
}

// After a lost link weights may stay in memory, but not in the way of another job.
TEST_F(WorkerTest, WhatIsLeftOfAnotherJobMakesRoom) {
  join();
  run(10);
  worker.link_closed(link, "reset", now);
  EXPECT_TRUE(take<FreeWeights>().empty());
  join();
  clear();
  worker.received(link, Assign{7, assignment_of(2, 11)}, now);
  ASSERT_EQ(take<FreeWeights>().size(), 1u);
  EXPECT_EQ(take<FreeWeights>()[0].job, kFirstJob);
  ASSERT_EQ(actions.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<LoadStage>(actions[1])) << "after the memory is free";
}

TEST_F(WorkerTest, PreparingLeavesTheStageAlone) {
  join();
  run(10);
  worker.received(link, Prepare{7, assignment(11)}, now);
  EXPECT_EQ(take<PrepareWeights>().size(), 1u);
  EXPECT_TRUE(worker.may_run(10));
  worker.prepared(11, Status(), {}, now);
  EXPECT_EQ(sent<Prepared>().size(), 1u);
  EXPECT_TRUE(worker.may_run(10));
}

// An idle node that was told to prepare and never told that nobody wants it any more looked stuck, and was
// given up.
TEST_F(WorkerTest, AnAbandonedChangeLeavesNoWorkPending) {
  join();
  worker.received(link, Prepare{7, assignment(11)}, now);
  pass(milliseconds(500));
  EXPECT_GT(last_beat().pending, 0u);
  worker.received(link, Abandon{7, 11}, now);
  ASSERT_EQ(take<StopPreparing>().size(), 1u);
  EXPECT_EQ(take<StopPreparing>()[0].epoch, 11u);
  pass(milliseconds(500));
  EXPECT_TRUE(sent<Beat>().back().jobs.empty());
  worker.prepared(11, Status(), {}, now);
  EXPECT_TRUE(sent<Prepared>().empty());
  // While it loads too; but not what runs in another epoch.
  run(12);
  worker.received(link, Prepare{7, assignment(13)}, now);
  worker.received(link, Abandon{7, 13}, now);
  EXPECT_TRUE(worker.may_run(12));
  worker.received(link, Assign{7, assignment(14)}, now);
  worker.received(link, Abandon{7, 14}, now);
  EXPECT_EQ(worker.phase(), WorkerPhase::kIdle);
}

TEST_F(WorkerTest, RemovedNodesAreCutOffHereToo) {
  join();
  EXPECT_TRUE(take<CutOff>().empty());
  worker.received(link, Removed{7, {"key-x"}}, now);
  worker.received(link, Removed{6, {"key-y"}}, now);  // of another coordinator
  ASSERT_EQ(take<CutOff>().size(), 1u);
  EXPECT_EQ(take<CutOff>()[0].keys, std::vector<std::string>{"key-x"});
}

TEST_F(WorkerTest, ObeysOneIncarnation) {
  join(7);
  worker.received(link, Assign{6, assignment(10)}, now);
  worker.received(link, Assign{8, assignment(10)}, now);
  EXPECT_EQ(worker.counters().incarnations, 2u);
  EXPECT_TRUE(take<LoadStage>().empty());
  // An older one that answers is left again; a newer one is obeyed.
  worker.link_closed(link, "reset", now);
  join(6);
  EXPECT_EQ(worker.state(), Worker::State::kWaiting);
  join(8);
  EXPECT_EQ(worker.incarnation(), 8u);
}

TEST_F(WorkerTest, LostCoordinatorStopsTheStageAndBacksOff) {
  join();
  run(10);
  clear();
  pass(milliseconds(3100), false);
  EXPECT_EQ(take<StopStage>().size(), 1u);
  EXPECT_EQ(take<CloseWorkerLink>().size(), 1u);
  EXPECT_FALSE(worker.may_run(10));
  // Doubling pauses: in ten seconds some six attempts, not hundreds.
  for (int i = 0; i < 200; ++i) {
    now += milliseconds(50);
    worker.tick(now);
    for (const ConnectToCoordinator& one : take<ConnectToCoordinator>())
      worker.connect_failed(one.attempt, "refused", now);
  }
  EXPECT_GE(worker.counters().connects, 5u);
  EXPECT_LE(worker.counters().connects, 10u);
  EXPECT_EQ(worker.last_problem(), "refused");
}

TEST_F(WorkerTest, ItsOwnPauseIsNotTheCoordinatorsSilence) {
  join();
  now += seconds(60);
  worker.tick(now);
  EXPECT_EQ(worker.state(), Worker::State::kJoined);
}

TEST_F(WorkerTest, RefusalForeverEndsIt) {
  join();
  run(10);
  worker.received(link, Refuse{true, "removed"}, now);
  ASSERT_EQ(take<GiveUp>().size(), 1u);
  EXPECT_EQ(take<GiveUp>()[0].why, "removed");
  EXPECT_EQ(take<StopStage>().size(), 1u);
  clear();
  pass(seconds(10), false);
  EXPECT_TRUE(take<ConnectToCoordinator>().empty());
}

TEST_F(WorkerTest, FailuresAreReported) {
  join();
  worker.received(link, Assign{7, assignment(10)}, now);
  worker.loaded(10, Status(Errc::kOutOfMemory, std::string(2000, 'x')), 0, now);
  ASSERT_EQ(sent<Ready>().size(), 1u);
  EXPECT_EQ(sent<Ready>()[0].code, Errc::kOutOfMemory);
  EXPECT_LE(sent<Ready>()[0].text.size(), 512u);
  EXPECT_EQ(worker.phase(), WorkerPhase::kIdle);
  run(11);
  worker.stage_failed(11, node_id(3), "reset", now);
  ASSERT_EQ(sent<Trouble>().size(), 1u);
  EXPECT_EQ(sent<Trouble>()[0].peer, node_id(3));
  EXPECT_FALSE(worker.may_run(11));
  worker.leave("stopping", now);
  EXPECT_EQ(sent<Leave>().size(), 1u);
}

TEST_F(WorkerTest, TellsItsTimeOfDayAsItIsNow) {
  WorkerConfig config{.instance = 5, .coordinator = "10.0.0.1:1", .join = testing::join_message(1)};
  config.join.unix_ms = 1'700'000'000'000;
  Worker other(config, now);
  now += seconds(90);
  other.tick(now);
  other.connected(1, 3, now);
  std::optional<Join> said;
  for (const WorkerAction& action : other.take_actions())
    if (const auto* send = std::get_if<SendToCoordinator>(&action)) said = std::get<Join>(send->message);
  ASSERT_TRUE(said.has_value());
  EXPECT_EQ(said->unix_ms, 1'700'000'090'000);
}

TEST_F(WorkerTest, LateConnectionsAreClosed) {
  worker.tick(now);
  const uint64_t attempt = take<ConnectToCoordinator>().back().attempt;
  pass(seconds(11), false);
  worker.connected(attempt, 99, now);
  EXPECT_EQ(take<CloseWorkerLink>().back().link, 99u);
  EXPECT_EQ(worker.counters().unknown_links, 1u);
}

TEST_F(WorkerTest, WhoIsAboutToEndAsksAndWaitsForTheAnswer) {
  join();
  run(10);
  worker.retire("a reboot", now);
  ASSERT_EQ(sent<Retire>().size(), 1u);
  EXPECT_EQ(sent<Retire>()[0].text, "a reboot");
  EXPECT_FALSE(worker.retired());
  EXPECT_TRUE(worker.may_run(10)) << "meanwhile it works";
  worker.received(link, Retired{6, ""}, now);
  EXPECT_FALSE(worker.retired()) << "of another coordinator";
  worker.received(link, Retired{7, "nothing fits"}, now);
  EXPECT_TRUE(worker.retired());
  EXPECT_EQ(worker.why_not_moved(), "nothing fits");
}

TEST_F(WorkerTest, WithoutACoordinatorNobodyHasToBeAsked) {
  worker.retire("a reboot", now);
  EXPECT_TRUE(worker.retired());
}

TEST_F(WorkerTest, ACoordinatorThatIsLostMeanwhileIsNotWaitedFor) {
  join();
  worker.retire("a reboot", now);
  EXPECT_FALSE(worker.retired());
  worker.link_closed(link, "reset", now);
  EXPECT_TRUE(worker.retired());
}

}  // namespace
}  // namespace butterfly::cluster
