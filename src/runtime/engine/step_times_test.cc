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
  EXPECT_NEAR(times.draft_tokens(4, 0, 5), 4 * 10.0 / 40, 1e-6);
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

TEST(StepTimes, GuessedRowsCostByTheStepTheyMake) {
  StepTimes times;
  EXPECT_NEAR(times.draft_tokens(1, 0, 2), 0.6, 1e-9) << "before anything is known";
  // The second row costs a third of a step, those up to the eighth nothing.
  for (int i = 0; i < 30; ++i) {
    times.add({.streams = 1}, milliseconds(30));
    times.add({.streams = 1, .drafts = 1}, milliseconds(40));
    times.add({.streams = 1, .drafts = 7}, milliseconds(41));
  }
  EXPECT_NEAR(times.draft_tokens(1, 0, 1), 10.0 / 30, 1e-6);
  EXPECT_NEAR(times.draft_tokens(1, 0, 4), 10.5 / 30, 1e-6) << "between its neighbours";
  EXPECT_NEAR(times.draft_tokens(1, 0, 7), 11.0 / 30, 1e-6);
  EXPECT_NEAR(times.draft_tokens(1, 0, 8), 11.0 / 30 * 8 / 7, 1e-6) << "beyond what was seen";
  EXPECT_NEAR(times.draft_tokens(1, 1, 6), 0.06, 1e-6) << "behind another guess: the least";
}

TEST(StepTimes, OldCostsOfGuessesAreForgotten) {
  StepTimes times;
  times.add({.streams = 1}, milliseconds(10));
  for (int i = 0; i < 5; ++i) times.add({.streams = 1, .drafts = 1}, milliseconds(100));
  EXPECT_GT(times.draft_tokens(1, 0, 1), 5);
  for (int i = 0; i < 2000; ++i) times.add({.streams = 1}, milliseconds(10));
  EXPECT_LT(times.draft_tokens(1, 0, 1), 0.5) << "or they would never be tried again";
}

TEST(StepTimes, TheFirstStepOfAShapeDoesNotCountWhenTheSecondIsFaster) {
  StepTimes times;
  times.add({.streams = 1}, milliseconds(100));
  times.add({.streams = 1}, milliseconds(10));
  EXPECT_NEAR(*times.stream_seconds(1), 0.010, 1e-9);
}

TEST(StepTimes, ARowIsNeverFree) {
  StepTimes times;
  for (int i = 0; i < 10; ++i) {
    times.add({.streams = 1}, milliseconds(10));
    times.add({.streams = 1, .drafts = 4}, milliseconds(9));
  }
  EXPECT_GT(times.draft_tokens(1, 0, 1), 0);
}

}  // namespace
}  // namespace butterfly::runtime
