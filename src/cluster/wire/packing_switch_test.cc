// Compression goes on where it pays and off where it does not, by figures alone.
#include "cluster/wire/packing_switch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace butterfly::cluster {
namespace {

constexpr size_t kLarge = size_t{4} << 20;
constexpr auto kSample = static_cast<double>(PackingSwitch::kSampleBytes);

TEST(PackingSwitch, GoesByTheSpeedOfTheLink) {
  for (const double link : {10e6, 10e9}) {
    PackingSwitch packing({});
    EXPECT_FALSE(packing.wants_sample(kLarge));  // nothing to compare with yet
    EXPECT_EQ(packing.choose(kLarge), Packing::kNone);
    packing.sent(kLarge, static_cast<double>(kLarge) / link);
    ASSERT_TRUE(packing.wants_sample(kLarge));
    packing.sampled(Packing::kLz4, 0.99, kSample / 1e9, kSample / 2e9);
    packing.sampled(Packing::kZstd, 0.8, kSample / 5e8, kSample / 1e9);
    EXPECT_FALSE(packing.wants_sample(kLarge));
    EXPECT_EQ(packing.choose(kLarge), link < 1e9 ? Packing::kZstd : Packing::kNone) << packing.describe();
    EXPECT_EQ(packing.choose(1000), Packing::kNone);
    EXPECT_THAT(packing.describe(), ::testing::HasSubstr(link < 1e9 ? "zstd: link 10 MB/s" : "off: link"));
  }
}

TEST(PackingSwitch, GoesOffWhenTheLinkGetsFasterOrValuesChange) {
  PackingSwitch packing({});
  packing.sent(kLarge, static_cast<double>(kLarge) / 10e6);
  packing.sampled(Packing::kLz4, 0.5, kSample / 1e9, kSample / 2e9);
  EXPECT_EQ(packing.choose(kLarge), Packing::kLz4);
  for (size_t i = 0; i < 100; ++i) packing.sent(kLarge, static_cast<double>(kLarge) / 20e9);
  EXPECT_EQ(packing.choose(kLarge), Packing::kNone);
  for (size_t i = 0; i < 100; ++i) packing.sent(kLarge, static_cast<double>(kLarge) / 10e6);
  for (uint64_t i = 0; i < PackingSwitch::kSampleEvery; ++i) EXPECT_EQ(packing.choose(kLarge), Packing::kLz4);
  ASSERT_TRUE(packing.wants_sample(kLarge));
  packing.sampled(Packing::kLz4, 1, kSample / 1e9, kSample / 2e9);
  EXPECT_EQ(packing.choose(kLarge), Packing::kNone);
}

TEST(PackingSwitch, DoesWhatItIsTold) {
  PackingSwitch off({.mode = packing_mode_by_name("off")}), zstd({.mode = packing_mode_by_name("zstd")});
  EXPECT_EQ(off.choose(kLarge), Packing::kNone);
  EXPECT_EQ(zstd.choose(kLarge), Packing::kZstd);
  EXPECT_EQ(zstd.choose(1000), Packing::kNone);
  EXPECT_FALSE(zstd.wants_sample(kLarge));
  EXPECT_THROW(packing_mode_by_name("gzip"), Error);
}

}  // namespace
}  // namespace butterfly::cluster
