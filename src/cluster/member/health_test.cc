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
  for (int i = 0; i < 12; ++i) pulse.beat({.progress = 5, .pending = 1}, now += milliseconds(250));
  EXPECT_EQ(pulse.judge(kLimits, {}, now), Verdict::kSuspect);
  pulse.beat({.progress = 5, .pending = 1}, now += milliseconds(500));
  EXPECT_EQ(pulse.judge(kLimits, {}, now), Verdict::kDead);
  EXPECT_EQ(pulse.words(now), "no progress for 3.25 s with 1 waiting");
  // A stage whose steps may take long has longer.
  EXPECT_EQ(pulse.judge(kLimits, seconds(9), now), Verdict::kSuspect);
  EXPECT_EQ(pulse.judge(kLimits, seconds(12), now), Verdict::kUp);
  pulse.beat({.progress = 6, .pending = 1}, now);
  EXPECT_EQ(pulse.judge(kLimits, {}, now), Verdict::kUp);
}

TEST(Pulse, IdleNodesNeedNotMove) {
  Pulse pulse(kStart);
  TimePoint now = kStart;
  for (int i = 0; i < 100; ++i) pulse.beat({.progress = 5}, now += milliseconds(250));
  EXPECT_EQ(pulse.judge(kLimits, {}, now), Verdict::kUp);
  // Work that has just come has all its time.
  pulse.beat({.progress = 5, .pending = 3}, now += milliseconds(250));
  EXPECT_EQ(pulse.judge(kLimits, {}, now), Verdict::kUp);
  EXPECT_EQ(pulse.judge(kLimits, {}, now + milliseconds(900)), Verdict::kUp);
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
