#include "runtime/chain/stage_settings.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "cluster/member/health.h"

namespace butterfly::runtime {
namespace {

const StageSettings kSettings{.context = 2048,
                              .positions = 8192,
                              .sequences = 4,
                              .rows_max = 256,
                              .kept_bytes = 4096,
                              .kv_type = DType::kQ8_0,
                              .wire = "f16",
                              .adapters = {{std::string(64, 'a'), 0.1F}, {std::string(64, '7'), -2}}};

TEST(StageSettingsTest, TextAndBack) {
  const auto parsed = StageSettings::parse(kSettings.text());
  ASSERT_TRUE(parsed.ok()) << parsed.status().text();
  EXPECT_EQ(*parsed, kSettings);
  const ChainOptions options = parsed->chain_options();
  EXPECT_EQ(options.cache.positions, 8192u);
  EXPECT_EQ(options.cache.rows_max, 256u);
  EXPECT_EQ(options.cache.kv_type, DType::kQ8_0);
  EXPECT_EQ(options.format->name, "f16");
}

TEST(StageSettingsTest, NumbersOutOfRangeAreRefused) {
  for (const char* text :
       {"", "context=0 positions=1 sequences=1 rows=1 kept=0 cache=F16 wire=f32",
        "context=1 positions=99999999999 sequences=1 rows=1 kept=0 cache=F16 wire=f32",
        "context=1 positions=1 sequences=1 rows=-1 kept=0 cache=F16 wire=f32",
        "context=1 positions=1 sequences=1 rows=1 kept=-1 cache=F16 wire=f32",
        "context=1 positions=1 sequences=1 rows=1 kept=0 cache=Q4_0 wire=f32",
        "context=1 positions=1 sequences=1 rows=1 kept=0 cache=F16 wire=zip",
        "context=1 positions=1 sequences=1 rows=1 kept=0 cache=F16 wire=f32 more=1",
        "context=1 positions=1 sequences=1 rows=1 kept=0 cache=F16 wire=f32 adapter=7:3f800000",
        "context=1 positions=1 sequences=1 rows=1 kept=0 cache=F16 wire=f32 adapter="
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:7f800000",
        "context=1 positions=1 sequences=1 rows=1 kept=0 cache=F16 wire=f32 adapter="
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:3f800000"}) {
    const auto parsed = StageSettings::parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), Errc::kCorrupt);
  }
}

// A peer's text either means what it says or is refused: nothing is read loosely.
RC_GTEST_PROP(StageSettingsTest, WhatIsAcceptedIsWhatWouldBeWritten, ()) {
  std::string text = kSettings.text();
  const auto at = *rc::gen::inRange<size_t>(0, text.size());
  text[at] = static_cast<char>(*rc::gen::inRange(32, 127));
  const auto parsed = StageSettings::parse(text);
  if (parsed) RC_ASSERT(parsed->text() == text);
}

// A stage that computes does not read: whoever sends to it waits at least as long as health does.
TEST(ChainOptionsTest, AMessageIsGivenUpByHealthBeforeItsSenderDoes) {
  EXPECT_GT(ChainOptions().send_timeout, cluster::kStallMost);
}

}  // namespace
}  // namespace butterfly::runtime
