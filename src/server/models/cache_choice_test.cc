#include "server/models/cache_choice.h"

#include <gtest/gtest.h>

namespace butterfly::server {
namespace {

class CacheChoiceTest : public ::testing::Test {
 protected:
  CacheChoiceTest() {
    config.states.resize(4);
    for (model::LayerState& layer : config.states) {
      layer.kv_heads = 2;
      layer.head_dim = 64;
    }
  }
  model::ModelConfig config;

  CacheAsked asked(uint64_t bytes_max) { return {.sequences = 2, .bytes_max = bytes_max}; }
};

TEST_F(CacheChoiceTest, TakesAllOfTheModelWhereItFits) {
  config.context = 100'000;
  const CacheChoice choice = choose_cache(config, asked(uint64_t{1} << 40));
  EXPECT_EQ(choice.context, 100'000u);
  EXPECT_EQ(choice.positions, 400'000u);
  EXPECT_NE(choice.words.find("all of the model's"), std::string::npos) << choice.words;
}

TEST_F(CacheChoiceTest, TakesWhatMemoryAllowsAndSaysHowToGetMore) {
  config.context = 100'000;
  const CacheChoice whole = choose_cache(config, asked(uint64_t{1} << 40));
  const CacheChoice part = choose_cache(config, asked(whole.bytes / 10));
  EXPECT_LT(part.context, 100'000u);
  EXPECT_GT(part.context, 30'000u);
  EXPECT_EQ(part.context, part.positions);
  EXPECT_LE(part.bytes, whole.bytes / 10);
  EXPECT_GT(part.bytes, whole.bytes / 11) << "no more is left than need be";
  EXPECT_NE(part.words.find("--memory"), std::string::npos) << part.words;
  CacheAsked small = asked(whole.bytes / 10);
  small.type = DType::kQ8_0;
  EXPECT_GT(choose_cache(config, small).context, part.context * 18 / 10) << "half the bytes, twice the text";
}

TEST_F(CacheChoiceTest, WhatWasAskedForHolds) {
  config.context = 100'000;
  CacheAsked wish = asked(1);
  wish.context = 8192;
  wish.positions = 10'000;
  const CacheChoice choice = choose_cache(config, wish);
  EXPECT_EQ(choice.context, 8192u);
  EXPECT_EQ(choice.positions, 10'000u);
}

TEST_F(CacheChoiceTest, ThereIsALeast) {
  config.context = 100'000;
  EXPECT_EQ(choose_cache(config, asked(1)).context, CacheChoice::kContextLeast);
  EXPECT_EQ(choose_cache(config, asked(0)).context, CacheChoice::kContextLeast) << "of a cluster";
  config.context = size_t{1} << 60;
  EXPECT_EQ(choose_cache(config, asked(1)).context, CacheChoice::kContextLeast);
  config.context = 77;
  EXPECT_EQ(choose_cache(config, asked(1)).context, 77u);
  config.positions_max = 50;
  EXPECT_EQ(choose_cache(config, asked(uint64_t{1} << 40)).context, 50u);
}

TEST(CacheBudget, IsHalfOfWhatTheWeightsLeaveForEach) {
  EXPECT_EQ(cache_budget(1000, 200, 1), 400u);
  EXPECT_EQ(cache_budget(1000, 200, 2), 200u);
  EXPECT_EQ(cache_budget(100, 200, 1), 0u);
}

}  // namespace
}  // namespace butterfly::server
