#include "cli/console/progress.h"

#include <gtest/gtest.h>

namespace butterfly::cli {
namespace {

TEST(ProgressLine, ShowsShareRateAndTimeLeft) {
  EXPECT_EQ(progress_line("making", 25, 100, 5.0, ProgressUnit::kCount, 80),
            "making  [#####---------------]  25%  5.0/s  ETA 15 s");
}

TEST(ProgressLine, CountsBytesInBinaryUnits) {
  EXPECT_EQ(progress_line("reading", 512u << 20, 1024u << 20, 2.0, ProgressUnit::kBytes, 80),
            "reading  [##########----------]  50%  256 MiB/s  ETA 2 s");
}

TEST(ProgressLine, HasNoBarWithoutATotal) {
  EXPECT_EQ(progress_line("reading", 2048, 0, 1.0, ProgressUnit::kBytes, 80),
            "reading  2.00 KiB  2.00 KiB/s");
}

TEST(ProgressLine, HasNoRateBeforeAnythingIsDone) {
  EXPECT_EQ(progress_line("x", 0, 10, 1.0, ProgressUnit::kCount, 80), "x  [--------------------]   0%");
  EXPECT_EQ(progress_line("x", 1, 10, 0.0, ProgressUnit::kCount, 80), "x  [##------------------]  10%");
}

TEST(ProgressLine, MoreThanAllIsAll) {
  EXPECT_EQ(progress_line("x", 11, 10, 1.0, ProgressUnit::kCount, 80),
            "x  [####################] 100%  11/s");
}

TEST(ProgressLine, TimeLeftIsWholeSeconds) {
  EXPECT_EQ(time_left_text(0), "0 s");
  EXPECT_EQ(time_left_text(0.2), "1 s");
  EXPECT_EQ(time_left_text(59.5), "1 min 00 s");
  EXPECT_EQ(time_left_text(1e300), time_left_text(1e9));
}

TEST(ProgressLine, IsCutAtTheWidth) {
  EXPECT_EQ(progress_line("x", 5, 10, 1.0, ProgressUnit::kCount, 8), "x  [####");
}

TEST(Progress, IsSilentWhenStderrIsNotATerminal) {
  testing::internal::CaptureStderr();
  {
    Progress progress("x", 2);
    progress.update(1);
    progress.update(2);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace butterfly::cli
