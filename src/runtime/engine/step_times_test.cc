// Averages follow what steps take, and one bad step does not mislead them.
#include "runtime/engine/step_times.h"

#include <gtest/gtest.h>

namespace butterfly::runtime {
namespace {

using std::chrono::milliseconds;

TEST(StepTimes, LearnsWhatRowsAdd) {
  StepTimes times;
  EXPECT_FALSE(times.stream_seconds(1));
  EXPECT_EQ(times.prompt_row_seconds(true), 0);
  for (int i = 0; i < 30; ++i) {
    times.add({.streams = 4}, milliseconds(40));
    times.add({.streams = 4, .prompt = 20}, milliseconds(100));
    times.add({.streams = 4, .drafts = 5}, milliseconds(50));
    times.add({.prompt = 100}, milliseconds(200));
  }
  EXPECT_NEAR(*times.stream_seconds(4), 0.040, 1e-6);
  EXPECT_NEAR(*times.stream_seconds(9), 0.040, 1e-6) << "the nearest that was seen";
  EXPECT_NEAR(times.prompt_row_seconds(true), 0.003, 1e-6);
  EXPECT_NEAR(times.prompt_row_seconds(false), 0.002, 1e-6);
  EXPECT_NEAR(times.draft_row_tokens(4), 4 * 2.0 / 40, 1e-6);
}

TEST(StepTimes, OneStepOfAMinuteIsForgivenAChangeIsNot) {
  StepTimes times;
  for (int i = 0; i < 20; ++i) times.add({.streams = 1}, milliseconds(10));
  times.add({.streams = 1}, std::chrono::seconds(60));
  EXPECT_LE(*times.stream_seconds(1), 0.0121);
  for (int i = 0; i < 60; ++i) times.add({.streams = 1}, milliseconds(100));
  EXPECT_NEAR(*times.stream_seconds(1), 0.1, 0.01);
}

TEST(StepTimes, OldOrDistantMeasurementsAreStale) {
  StepTimes times;
  EXPECT_TRUE(times.is_stale(1, 10));
  times.add({.streams = 8}, milliseconds(10));
  EXPECT_FALSE(times.is_stale(8, 10));
  EXPECT_FALSE(times.is_stale(10, 10));
  EXPECT_TRUE(times.is_stale(1, 10));
  for (int i = 0; i < 10; ++i) times.add({.streams = 8, .prompt = 4}, milliseconds(12));
  EXPECT_TRUE(times.is_stale(8, 10));
}

TEST(StepTimes, ARowIsNeverFree) {
  StepTimes times;
  for (int i = 0; i < 10; ++i) {
    times.add({.streams = 1}, milliseconds(10));
    times.add({.streams = 1, .drafts = 4}, milliseconds(9));
  }
  EXPECT_GT(times.draft_row_tokens(1), 0);
}

}  // namespace
}  // namespace butterfly::runtime
