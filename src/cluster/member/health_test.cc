// Pulses and the event log.
#include "cluster/member/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/member/event_log.h"

namespace butterfly::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kStart{};
constexpr HealthLimits kLimits;

TEST(Pulse, SilenceIsSuspectThenDead) {
  Pulse pulse(kStart);
  pulse.beat(Beat{}, kStart);
  EXPECT_EQ(pulse.judge(kLimits, {}, kStart + milliseconds(999)), Verdict::kUp);
  EXPECT_EQ(pulse.judge(kLimits, {}, kStart + seconds(1)), Verdict::kSuspect);
  EXPECT_EQ(pulse.judge(kLimits, {}, kStart + milliseconds(2999)), Verdict::kSuspect);
  EXPECT_EQ(pulse.judge(kLimits, {}, kStart + seconds(3)), Verdict::kDead);
  EXPECT_EQ(pulse.words(kStart + seconds(3)), "no heartbeat for 3.00 s");
  pulse.forgive(seconds(2));
  EXPECT_EQ(pulse.judge(kLimits, {}, kStart + seconds(2)), Verdict::kUp);
}

TEST(Pulse, BeatsWithoutProgressAreNoLife) {
  Pulse pulse(kStart);
  TimePoint now = kStart;
  for (int i = 0; i < 12; ++i)
    pulse.beat({.jobs = {{.progress = 5, .pending = 1}}}, now += milliseconds(250));
  EXPECT_EQ(pulse.judge(kLimits, {}, now), Verdict::kSuspect);
  pulse.beat({.jobs = {{.progress = 5, .pending = 1}}}, now += milliseconds(500));
  EXPECT_EQ(pulse.judge(kLimits, {}, now), Verdict::kDead);
  EXPECT_EQ(pulse.words(now), "no progress for 3.25 s with 1 waiting");
  // A stage whose steps may take long has longer.
  EXPECT_EQ(pulse.judge(kLimits, seconds(9), now), Verdict::kSuspect);
  EXPECT_EQ(pulse.judge(kLimits, seconds(12), now), Verdict::kUp);
  pulse.beat({.jobs = {{.progress = 6, .pending = 1}}}, now);
  EXPECT_EQ(pulse.judge(kLimits, {}, now), Verdict::kUp);
}

TEST(Pulse, RemembersTheLongestStepOfItsStage) {
  Pulse pulse(kStart);
  const auto beat = [&](Epoch epoch, uint64_t steps, uint64_t compute_us) {
    pulse.beat({.jobs = {{.epoch = epoch, .steps = steps, .compute_us = compute_us}}}, kStart);
  };
  beat(5, 10, 1'000'000);
  EXPECT_EQ(pulse.longest_step(kFirstJob), Duration{}) << "nothing is known of the time before";
  beat(5, 12, 5'000'000);
  EXPECT_EQ(pulse.longest_step(kFirstJob), seconds(2));
  beat(5, 20, 5'800'000);
  EXPECT_EQ(pulse.longest_step(kFirstJob), seconds(2)) << "shorter ones do not count";
  beat(5, 20, 5'800'000);
  EXPECT_EQ(pulse.longest_step(kFirstJob), seconds(2));
  beat(6, 21, 9'000'000);
  EXPECT_EQ(pulse.longest_step(kFirstJob), Duration{}) << "another stage";
}

TEST(Pulse, IdleNodesNeedNotMove) {
  Pulse pulse(kStart);
  TimePoint now = kStart;
  for (int i = 0; i < 100; ++i) pulse.beat({.jobs = {{.progress = 5}}}, now += milliseconds(250));
  EXPECT_EQ(pulse.judge(kLimits, {}, now), Verdict::kUp);
  // Work that has just come has all its time.
  pulse.beat({.jobs = {{.progress = 5, .pending = 3}}}, now += milliseconds(250));
  EXPECT_EQ(pulse.judge(kLimits, {}, now), Verdict::kUp);
  EXPECT_EQ(pulse.judge(kLimits, {}, now + milliseconds(900)), Verdict::kUp);
}

// A stage that hangs beside one that works is no life either.
TEST(Pulse, EveryJobMustMove) {
  Pulse pulse(kStart);
  TimePoint now = kStart;
  for (uint64_t i = 0; i < 20; ++i)
    pulse.beat({.jobs = {{.job = 1, .progress = i, .pending = 1}, {.job = 2, .progress = 7, .pending = 2}}},
               now += milliseconds(250));
  EXPECT_EQ(pulse.judge(kLimits, {}, now), Verdict::kDead);
  EXPECT_EQ(pulse.words(now), "no progress for 4.75 s with 2 waiting");
  EXPECT_EQ(pulse.last(2).pending, 2u);
  // The job is over: what it had is nobody's work.
  pulse.beat({.jobs = {{.job = 1, .progress = 20, .pending = 1}}}, now);
  EXPECT_EQ(pulse.judge(kLimits, {}, now), Verdict::kUp);
  EXPECT_EQ(pulse.last(2).pending, 0u);
}

TEST(EventLog, KeepsTheNewest) {
  EventLog log(3);
  for (uint64_t i = 1; i <= 5; ++i) log.add(kStart, EventKind::kJoined, "n", i, std::to_string(i));
  EXPECT_EQ(log.last_number(), 5u);
  const auto all = log.since(0);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all.front().number, 3u);
  EXPECT_EQ(log.since(4).size(), 1u);
  EXPECT_EQ(log.since(4).front().text, "5");
  EXPECT_TRUE(log.since(5).empty());
  EXPECT_TRUE(log.since(100).empty());
  EXPECT_EQ(log.since(0, 2).size(), 2u);
}

}  // namespace
}  // namespace butterfly::cluster
