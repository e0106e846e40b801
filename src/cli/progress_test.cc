#include "cli/progress.h"

#include <gtest/gtest.h>

namespace butterfly::cli {
namespace {

TEST(progress_line, shows_share_rate_and_time_left) {
  EXPECT_EQ(progress_line("making", 25, 100, 5.0, ProgressUnit::kCount, 80),
            "making  [#####---------------]  25%  5.0/s  ETA 15 s");
}

TEST(progress_line, counts_bytes_in_binary_units) {
  EXPECT_EQ(progress_line("reading", 512u << 20, 1024u << 20, 2.0, ProgressUnit::kBytes, 80),
            "reading  [##########----------]  50%  256 MiB/s  ETA 2 s");
}

TEST(progress_line, has_no_bar_without_a_total) {
  EXPECT_EQ(progress_line("reading", 2048, 0, 1.0, ProgressUnit::kBytes, 80),
            "reading  2.00 KiB  2.00 KiB/s");
}

TEST(progress_line, has_no_rate_before_anything_is_done) {
  EXPECT_EQ(progress_line("x", 0, 10, 1.0, ProgressUnit::kCount, 80), "x  [--------------------]   0%");
  EXPECT_EQ(progress_line("x", 1, 10, 0.0, ProgressUnit::kCount, 80), "x  [##------------------]  10%");
}

TEST(progress_line, more_than_all_is_all) {
  EXPECT_EQ(progress_line("x", 11, 10, 1.0, ProgressUnit::kCount, 80),
            "x  [####################] 100%  11/s");
}

TEST(progress_line, is_cut_at_the_width) {
  EXPECT_EQ(progress_line("x", 5, 10, 1.0, ProgressUnit::kCount, 8), "x  [####");
}

TEST(progress, is_silent_when_stderr_is_not_a_terminal) {
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
