// Times of a member add up to all of its time, and a step that is traced gives its spans; as a picture too.
#include "runtime/training/work_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/training/step_picture.h"

namespace butterfly::runtime {
namespace {

using cluster::TrainTimes;
using namespace std::chrono_literals;

TEST(WorkTimes, AddUpToAllOfTheTime) {
  WorkTimes times;
  const TimePoint before = system_now();
  times.add(&TrainTimes::wait, before - 10s, before);  // before the first step
  EXPECT_EQ(times.totals(), TrainTimes{});
  times.begin_step(before, false);
  const TimePoint start = system_now();
  times.add(&TrainTimes::compute, start - 20s, start + 2s);  // what lies before the first step does not count
  times.add(&TrainTimes::wait, start + 2s, start + 3s);
  const TrainTimes totals = times.totals();
  EXPECT_GE(totals.compute, 2);
  EXPECT_LT(totals.compute, 10);
  EXPECT_DOUBLE_EQ(totals.wait, 1);
  EXPECT_GE(totals.other, 0);
}

TEST(WorkTimes, OnlyATracedStepHasSpans) {
  WorkTimes times;
  const TimePoint dealt = system_now() + 1s;
  times.begin_step(dealt, true);
  times.add(&TrainTimes::compute, dealt, dealt + 500ms);
  times.add(&TrainTimes::wire, dealt + 500ms, dealt + 750ms);
  EXPECT_TRUE(times.take_spans().empty());  // it is not over
  times.begin_step(dealt + 1s, false);
  times.add(&TrainTimes::compute, dealt + 1s, dealt + 2s);
  const std::vector<cluster::TrainSpan> spans = times.take_spans();
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0], (cluster::TrainSpan{0, 0, 0.5}));
  EXPECT_EQ(cluster::kTrainTimeFields[spans[1].field].name, "wire");
  EXPECT_DOUBLE_EQ(spans[1].end, 0.75);
  times.begin_step(dealt + 3s, false);
  EXPECT_TRUE(times.take_spans().empty());

  const std::string picture = step_picture({.step = 6, .rows = {{"a <b>", spans}, {"c", {}}}});
  EXPECT_THAT(picture, ::testing::HasSubstr("Step 7"));
  EXPECT_THAT(picture, ::testing::HasSubstr("wire: 250 ms"));
  EXPECT_THAT(picture, ::testing::HasSubstr("a &lt;b&gt;"));
  EXPECT_THAT(step_picture({}), ::testing::HasSubstr("</svg>"));
}

TEST(WorkTimes, WaitsAreSharedOutByWhatWasSentMeanwhile) {
  WorkTimes times;
  times.begin_step(system_now() - 10s, false);
  const TimePoint start = system_now() + 1s;
  times.add(&TrainTimes::compute, start, start + 3s);
  times.add_wait(start + 3s, start + 6s, {.compress = 0.5, .wire = 1.5});
  times.add_wait(start + 6s, start + 7s, {.wire = 5});  // it had begun earlier
  const TrainTimes totals = times.totals({.compress = 1, .wire = 7});
  EXPECT_DOUBLE_EQ(totals.compress, 0.5);
  EXPECT_DOUBLE_EQ(totals.wire, 2.5);
  EXPECT_DOUBLE_EQ(totals.wait, 1);
  EXPECT_DOUBLE_EQ(totals.compute, 3);
  EXPECT_DOUBLE_EQ(totals.beside, 5);  // of 8 s the thread waited for 3
}

TEST(WorkTimes, SpansAreBounded) {
  WorkTimes times;
  const TimePoint dealt = system_now() + 1s;
  times.begin_step(dealt, true);
  for (int i = 0; i < 1000; ++i) times.add(&TrainTimes::wait, dealt + i * 1ms, dealt + (i + 1) * 1ms);
  times.begin_step(dealt + 2s, false);
  EXPECT_EQ(times.take_spans().size(), cluster::kTrainSpansMax);
  EXPECT_NEAR(times.totals().wait, 1, 1e-9);
}

}  // namespace
}  // namespace butterfly::runtime
