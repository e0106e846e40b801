#include "cli/format.h"

#include <gtest/gtest.h>

namespace butterfly::cli {
namespace {

TEST(format, bytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes((1u << 20) - 1), "1.0 MiB");  // not "1024.0 KiB"
  EXPECT_EQ(format_bytes(UINT64_MAX), "16.0 EiB");
}

TEST(format, counts) {
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(260'032), "260.0 K");
  EXPECT_EQ(format_count(999'960), "1.0 M");
  EXPECT_EQ(format_count(7'240'000'000), "7.2 B");
}

TEST(format, durations) {
  EXPECT_EQ(format_duration(0.00035), "350 us");
  EXPECT_EQ(format_duration(0.012), "12.0 ms");
  EXPECT_EQ(format_duration(1.5), "1.5 s");
  EXPECT_EQ(format_duration(15), "15 s");
  EXPECT_EQ(format_duration(200.4), "3 min 20 s");
  EXPECT_EQ(format_duration(7500), "2 h 5 min");
}

}  // namespace
}  // namespace butterfly::cli
