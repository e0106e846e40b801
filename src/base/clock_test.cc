#include "base/clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace butterfly {
namespace {

using namespace std::chrono_literals;

TEST(SystemClock, NeverGoesBackAndSleepsAtLeastAsLongAsAsked) {
  SystemClock& clock = SystemClock::instance();
  const TimePoint before = clock.now();
  clock.sleep_for(2ms);
  EXPECT_GE(clock.now() - before, 2ms);
  clock.sleep_until(before);  // past: returns at once
}

TEST(ManualClock, MovesOnlyWhenTold) {
  ManualClock clock;
  const TimePoint start = clock.now();
  EXPECT_EQ(clock.now(), start);
  clock.advance(3s);
  EXPECT_EQ(clock.now() - start, 3s);
  EXPECT_DEATH(clock.advance(-1ns), "advance by -1");
}

TEST(ManualClock, SleepersWakeWhenTheirTimeHasCome) {
  ManualClock clock;
  std::atomic<int> awake{0};
  std::thread early([&] {
    clock.sleep_for(1s);
    ++awake;
  });
  std::thread late([&] {
    clock.sleep_for(10s);
    ++awake;
  });
  clock.wait_for_sleepers(2);
  clock.advance(999ms);
  EXPECT_EQ(awake, 0);
  clock.advance(1ms);
  early.join();
  EXPECT_EQ(awake, 1);
  clock.advance(9s);
  late.join();
  EXPECT_EQ(awake, 2);
}

TEST(ManualClock, CanPlayAYearAtOnce) {
  ManualClock clock(ManualClock::Sleep::kAdvances);
  const TimePoint start = clock.now();
  for (int day = 0; day < 365; ++day) clock.sleep_for(24h);
  EXPECT_EQ(clock.now() - start, 365 * 24h);
}

TEST(Deadline, ExpiresAndNeverHasNegativeTimeLeft) {
  ManualClock clock;
  const Deadline deadline(clock, 5s);
  EXPECT_EQ(deadline.remaining(), 5s);
  clock.advance(4s);
  EXPECT_FALSE(deadline.expired());
  EXPECT_EQ(deadline.remaining(), 1s);
  clock.advance(1s);
  EXPECT_TRUE(deadline.expired());
  clock.advance(1h);
  EXPECT_EQ(deadline.remaining(), 0s);
}

TEST(Deadline, ForEverDoesNotOverflow) {
  ManualClock clock;
  clock.advance(1h);
  const Deadline never(clock, Duration::max());
  EXPECT_FALSE(never.expired());
  EXPECT_EQ(never.when(), TimePoint::max());
  EXPECT_EQ(Deadline::at(clock, clock.now()).remaining(), 0s);
}

}  // namespace
}  // namespace butterfly
