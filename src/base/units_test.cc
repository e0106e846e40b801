#include "base/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace butterfly {
namespace {

using namespace std::chrono_literals;

TEST(Units, Bytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(uint64_t{4} << 30), "4.00 GiB");
  EXPECT_EQ(format_bytes(12'900'000), "12.3 MiB");
  EXPECT_EQ(format_bytes((uint64_t{1} << 20) - 1), "1.00 MiB");  // not "1024 KiB"
  EXPECT_EQ(format_bytes(UINT64_MAX), "16.0 EiB");
}

TEST(Units, Counts) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1234), "1.23 k");
  EXPECT_EQ(format_count(999'999), "1.00 M");
  EXPECT_EQ(format_count(7'240'000'000), "7.24 B");
  EXPECT_EQ(format_count(110'000'000), "110 M");
}

TEST(Units, Durations) {
  EXPECT_EQ(format_duration(250ns), "250 ns");
  EXPECT_EQ(format_duration(1200ns), "1.20 us");
  EXPECT_EQ(format_duration(12345us), "12.3 ms");
  EXPECT_EQ(format_duration(1200ms), "1.20 s");
  EXPECT_EQ(format_duration(59'990ms), "60.0 s");
  EXPECT_EQ(format_duration(125s), "2 min 05 s");
  EXPECT_EQ(format_duration(3h + 7min), "3 h 07 min");
  EXPECT_EQ(format_duration(-5ms), "-5.00 ms");
  EXPECT_EQ(format_duration(std::chrono::nanoseconds::min())[0], '-');
}

TEST(Units, ParsesBytes) {
  EXPECT_EQ(*parse_bytes("0"), 0u);
  EXPECT_EQ(*parse_bytes("4096"), 4096u);
  EXPECT_EQ(*parse_bytes("17B"), 17u);
  EXPECT_EQ(*parse_bytes("64k"), 64u << 10);
  EXPECT_EQ(*parse_bytes("64KiB"), 64u << 10);
  EXPECT_EQ(*parse_bytes("64kb"), 64000u);
  EXPECT_EQ(*parse_bytes("1.5 GiB"), uint64_t{3} << 29);
  EXPECT_EQ(*parse_bytes("2GB"), 2'000'000'000u);
  EXPECT_EQ(*parse_bytes("0.1K"), 102u);
  EXPECT_EQ(*parse_bytes("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(*parse_bytes("15.999999999999999999E"), UINT64_MAX - 1);  // exact, not through a double
}

TEST(Units, RefusesWhatIsNotBytesAndSaysWhat) {
  for (const char* text :
       {"", "K", "-1", "1.5", "1.5B", "1.", ".5K", "1..5K", "1e3", "10 bananas", "1KiBB", "1 K x", "16E",
        "18446744073709551616", "99999999999T", " 1", "1.0000000000000000000001K", "0x10"}) {
    const auto result = parse_bytes(text);
    ASSERT_FALSE(result.ok()) << text << " gave " << *result;
    EXPECT_EQ(result.status().code(), Errc::kInvalidArgument);
    EXPECT_THAT(result.status().text(), ::testing::HasSubstr(std::string("'") + text + "'"));
  }
}

}  // namespace
}  // namespace butterfly
