#include "model/sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/rng.h"

namespace butterfly::model {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Everything off but the draw.
SamplerSettings plain() {
  SamplerSettings settings;
  settings.temperature = 1;
  settings.top_k = 0;
  settings.top_p = 1;
  settings.min_p = 0;
  return settings;
}

// Probabilities 0.5, 0.25, 0.125, 0.125 for ids 2, 0, 3, 1.
const std::vector<float> kLogits = {std::log(0.25f), std::log(0.125f), std::log(0.5f), std::log(0.125f)};

std::vector<int32_t> candidate_ids(const SamplerSettings& settings, std::span<const float> logits,
                                   std::span<const int32_t> history = {}) {
  Sampler sampler(settings);
  sampler.sample(logits, history, 0);
  std::vector<int32_t> ids;
  for (const Candidate& candidate : sampler.candidates()) ids.push_back(candidate.id);
  return ids;
}

TEST(Sampler, GreedyTakesTheLargest) {
  SamplerSettings settings;
  settings.temperature = 0;
  Sampler sampler(settings);
  EXPECT_EQ(sampler.sample(kLogits, {}, 0), 2);
  EXPECT_EQ(sampler.sample(std::vector<float>{1, 5, 5}, {}, 1), 1);
  settings.temperature = -1;
  EXPECT_EQ(Sampler(settings).sample(kLogits, {}, 0), 2);
}

// How many logits a choice reads: what it can be told without the others.
TEST(Sampler, KnowsHowManyCandidatesItNeeds) {
  SamplerSettings settings = plain();
  EXPECT_EQ(Sampler(settings).candidates_max(), 0u);
  settings.top_p = 0.9f;
  EXPECT_EQ(Sampler(settings).candidates_max(), 0u) << "top-p counts all";
  settings.top_k = 12;
  EXPECT_EQ(Sampler(settings).candidates_max(), 12u);
  settings.temperature = 0;
  EXPECT_EQ(Sampler(settings).candidates_max(), 1u);
  settings.presence_penalty = 0.5f;
  EXPECT_EQ(Sampler(settings).candidates_max(), 0u) << "one behind may come first";
  settings.repeat_last_n = 0;
  EXPECT_EQ(Sampler(settings).candidates_max(), 1u);
  settings.logit_bias = {{3, 1.0f}};
  EXPECT_EQ(Sampler(settings).candidates_max(), 0u);
}

TEST(Sampler, DrawFollowsTheProbabilities) {
  Sampler sampler(plain());
  std::vector<int> counts(4);
  constexpr int kDraws = 40000;
  for (int i = 0; i < kDraws; ++i)
    ++counts[static_cast<size_t>(sampler.sample(kLogits, {}, static_cast<uint64_t>(i)))];
  // Five standard deviations.
  const double p[] = {0.25, 0.125, 0.5, 0.125};
  for (size_t id = 0; id < 4; ++id)
    EXPECT_NEAR(counts[id], kDraws * p[id], 5 * std::sqrt(kDraws * p[id] * (1 - p[id]))) << id;
  for (const Candidate& candidate : sampler.candidates())
    EXPECT_NEAR(sampler.probability(candidate), p[candidate.id], 1e-6);
}

TEST(Sampler, TemperatureSharpens) {
  SamplerSettings settings = plain();
  settings.temperature = 0.5;  // squares the ratios: 16 : 4 : 1 : 1
  Sampler sampler(settings);
  sampler.sample(kLogits, {}, 0);
  EXPECT_NEAR(sampler.probability(sampler.candidates()[2]), 16.0 / 22, 1e-6);
}

TEST(Sampler, ExtremeTemperatures) {
  const std::vector<float> logits = {-90, 90, 89, 90};  // candidates() reads them again
  for (const int top_k : {0, 2, 3}) {
    SamplerSettings settings = plain();
    settings.top_k = top_k;
    settings.temperature = std::numeric_limits<float>::denorm_min();
    Sampler cold(settings);
    for (uint64_t i = 0; i < 50; ++i) EXPECT_EQ(cold.sample(logits, {}, i) % 2, 1);
    settings.temperature = std::numeric_limits<float>::max();
    Sampler hot(settings);
    hot.sample(logits, {}, 0);
    for (const Candidate& c : hot.candidates())
      EXPECT_NEAR(hot.probability(c), 1.0 / static_cast<double>(hot.candidates().size()), 1e-6);
  }
}

TEST(Sampler, TopK) {
  SamplerSettings settings = plain();
  settings.top_k = 3;
  EXPECT_THAT(candidate_ids(settings, kLogits),
              ::testing::ElementsAre(2, 0, 1));  // of equal 1 and 3 the lower id
  settings.top_k = 1;
  EXPECT_THAT(candidate_ids(settings, kLogits), ::testing::ElementsAre(2));
  settings.top_k = 99;
  EXPECT_EQ(candidate_ids(settings, kLogits).size(), 4u);
}

TEST(Sampler, TopPKeepsTheOneThatCrosses) {
  // Exact in binary: weights 1, 1, 1, 1 of equal logits.
  const std::vector<float> equal(4, 2.0f);
  for (const int top_k : {0, 3}) {
    SamplerSettings settings = plain();
    settings.top_k = top_k;
    const size_t all = top_k == 0 ? 4 : 3;
    settings.top_p = 0;
    EXPECT_EQ(candidate_ids(settings, equal).size(), 1u);
    settings.top_p = 1.0f / static_cast<float>(all) * 0.99f;
    EXPECT_EQ(candidate_ids(settings, equal).size(), 1u);
    settings.top_p = 1.0f / static_cast<float>(all) * 1.01f;
    EXPECT_THAT(candidate_ids(settings, equal), ::testing::ElementsAre(0, 1));
    settings.top_p = 0.9999f;
    EXPECT_EQ(candidate_ids(settings, equal).size(), all);
  }
  SamplerSettings half = plain();
  half.top_p = 0.5;  // reached exactly by two of four
  EXPECT_EQ(candidate_ids(half, equal).size(), 2u);
}

TEST(Sampler, MinPIsRelativeToTheLargest) {
  for (const int top_k : {0, 4, 3}) {
    SamplerSettings settings = plain();
    settings.top_k = top_k;
    settings.min_p = 0.3f;  // of 0.5: keeps 0.25
    EXPECT_THAT(candidate_ids(settings, kLogits), ::testing::ElementsAre(2, 0));
    settings.min_p = 0.6f;
    EXPECT_THAT(candidate_ids(settings, kLogits), ::testing::ElementsAre(2));
    settings.min_p = 1;
    EXPECT_THAT(candidate_ids(settings, kLogits), ::testing::ElementsAre(2));
  }
}

TEST(Sampler, PenaltiesByHand) {
  SamplerSettings settings = plain();
  settings.repeat_penalty = 2;
  settings.frequency_penalty = 0.5f;
  settings.presence_penalty = 0.25f;
  settings.repeat_last_n = 3;
  Sampler sampler(settings);
  const std::vector<float> logits = {4, -4, 1, 0};
  const std::vector<int32_t> history = {2, 0, 1, 0};  // the first is beyond the last 3
  sampler.sample(logits, history, 0);
  const auto candidates = sampler.candidates();
  ASSERT_EQ(candidates.size(), 4u);
  EXPECT_EQ(candidates[0].logit, 4 / 2.0f - 2 * 0.5f - 0.25f);
  EXPECT_EQ(candidates[1].logit, -4 * 2.0f - 0.5f - 0.25f);
  EXPECT_EQ(candidates[2].logit, 1);
  EXPECT_EQ(candidates[3].logit, 0);
  settings.repeat_last_n = -1;
  Sampler whole(settings);
  whole.sample(logits, history, 0);
  EXPECT_EQ(whole.candidates()[2].logit, 1 / 2.0f - 0.75f);
  settings.repeat_last_n = 0;
  Sampler none(settings);
  none.sample(logits, history, 0);
  EXPECT_EQ(none.candidates()[0].logit, 4);
}

TEST(Sampler, LogitBiasForcesAndForbids) {
  SamplerSettings settings = plain();
  settings.logit_bias = {{2, -kInf}, {3, 100.0f}};
  Sampler sampler(settings);
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(sampler.sample(kLogits, {}, i), 3);
  settings.logit_bias = {{4, 1.0f}};
  EXPECT_THROW(Sampler(settings).sample(kLogits, {}, 0), Error);
}

TEST(Sampler, OnlyAllowedTokensAreChosen) {
  std::vector<float> logits(130);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i);
  const std::vector<uint64_t> some = {uint64_t{1} << 63, ~uint64_t{0}, 0};  // 63 to 127
  SamplerSettings settings = plain();
  settings.logit_bias = {{129, 1000.0f}};
  Sampler sampler(settings);
  for (uint64_t position = 0; position < 200; ++position) {
    const int32_t token = sampler.sample(logits, {}, position, some);
    EXPECT_GE(token, 63);
    EXPECT_LE(token, 127) << "a bias does not lift the mask";
  }
  settings.temperature = 0;
  EXPECT_EQ(Sampler(settings).sample(logits, {}, 0, some), 127);
  EXPECT_EQ(Sampler(settings).sample(logits, {}, 0, std::vector<uint64_t>{8, 0, 0}), 3);
  EXPECT_THROW(Sampler(settings).sample(logits, {}, 0, std::vector<uint64_t>{0, 0, 0}), Error);
}

TEST(Sampler, SeedAndPositionDecide) {
  SamplerSettings settings = plain();
  const std::vector<float> logits(1000, 0.0f);
  settings.seed = 7;
  Sampler a(settings), b(settings);
  settings.seed = 8;
  Sampler c(settings);
  std::vector<int32_t> from_a, from_c;
  std::set<int32_t> distinct;
  for (uint64_t i = 0; i < 50; ++i) {
    from_a.push_back(a.sample(logits, {}, i));
    from_c.push_back(c.sample(logits, {}, i));
    distinct.insert(from_a.back());
  }
  for (uint64_t i = 50; i-- > 0;) EXPECT_EQ(b.sample(logits, {}, i), from_a[i]);  // in any order
  EXPECT_NE(from_a, from_c);
  EXPECT_GT(distinct.size(), 40u);
}

TEST(Sampler, TokensThatCannotBeChosenNeverAre) {
  for (const int top_k : {0, 2, 3}) {
    SamplerSettings settings = plain();
    settings.top_k = top_k;
    Sampler sampler(settings);
    const std::vector<float> logits = {-kInf, 1, -kInf, -kInf};
    for (uint64_t i = 0; i < 200; ++i) EXPECT_EQ(sampler.sample(logits, {}, i), 1);
  }
}

TEST(Sampler, BadLogitsAreErrors) {
  for (const float temperature : {0.0f, 1.0f}) {
    SamplerSettings settings;
    settings.temperature = temperature;
    Sampler sampler(settings);
    EXPECT_THROW(sampler.sample(std::vector<float>{1, kNan, 2}, {}, 0), Error);
    EXPECT_THROW(sampler.sample(std::vector<float>{1, kInf}, {}, 0), Error);
    EXPECT_THROW(sampler.sample({}, {}, 0), Error);
  }
  SamplerSettings penalties;
  penalties.repeat_penalty = 1.5;
  EXPECT_THROW(Sampler(penalties).sample(kLogits, std::vector<int32_t>{4}, 0), Error);
  EXPECT_THROW(Sampler(penalties).sample(kLogits, std::vector<int32_t>{-1}, 0), Error);
}

TEST(Sampler, BadSettingsAreErrors) {
  const auto refused = [](auto change) {
    SamplerSettings settings;
    change(settings);
    EXPECT_THROW(Sampler{settings}, Error);
  };
  refused([](auto& s) { s.temperature = kNan; });
  refused([](auto& s) { s.top_p = -0.1f; });
  refused([](auto& s) { s.min_p = 1.5f; });
  refused([](auto& s) { s.repeat_penalty = 0; });
  refused([](auto& s) { s.repeat_last_n = -2; });
  refused([](auto& s) { s.logit_bias = {{0, kNan}}; });
  refused([](auto& s) { s.logit_bias = {{-1, 0.0f}}; });
}

// Walking over blocks finds the token that walking over all of them one by one finds.
RC_GTEST_PROP(Sampler, ADrawFromAllIsTheDrawByDefinition, ()) {
  const auto seed = *rc::gen::arbitrary<uint32_t>();
  const auto size = *rc::gen::inRange<size_t>(1, 2000);
  std::vector<float> logits(size);
  for (size_t i = 0; i < size; ++i) logits[i] = i % 3 == 1 ? -kInf : random_normal(seed, 1, i) * 4;
  SamplerSettings settings = plain();
  settings.seed = seed;
  Sampler sampler(settings);
  for (uint64_t position = 0; position < 20; ++position) {
    const int32_t found = sampler.sample(logits, {}, position);
    RC_ASSERT(found % 3 != 1);
    // The random number is between what comes before the token and what comes before the next one; so far
    // apart from others' that rounding does not matter.
    double before = 0, all = 0;
    for (const Candidate& c : sampler.candidates()) {
      if (c.id < found) before += c.weight;
      all += c.weight;
    }
    const double unit = static_cast<double>(random_u64(seed, 0x73616d706c65, position) >> 11) * 0x1p-53 * all;
    const double weight = sampler.candidates()[static_cast<size_t>(found)].weight;
    RC_ASSERT(before <= unit + 1e-12 && unit < before + weight + 1e-12);
  }
}

// The two ways to the same set: through top-k over everything but one, and from all.
RC_GTEST_PROP(Sampler, CutsAgreeWithTheirDefinition, ()) {
  const auto seed = *rc::gen::arbitrary<uint32_t>();
  const auto size = *rc::gen::inRange<size_t>(2, 2000);
  std::vector<float> logits(size);
  for (size_t i = 0; i < size; ++i) logits[i] = random_normal(seed, 1, i) * 4;
  SamplerSettings settings = plain();
  settings.top_p = static_cast<float>(*rc::gen::inRange(1, 100)) / 100;
  settings.min_p = static_cast<float>(*rc::gen::inRange(0, 30)) / 100;
  const auto found = candidate_ids(settings, logits);

  std::vector<Candidate> sorted;
  LogitScan scan;
  scan.read(logits);
  scan.top(size, sorted);
  double total = 0;
  for (const Candidate& c : sorted) total += std::exp(double{c.logit} - sorted[0].logit);
  size_t expected = 0;
  double sum = 0;
  while (expected < size) {
    const double weight = std::exp(double{sorted[expected].logit} - sorted[0].logit);
    if (expected > 0 && weight < settings.min_p) break;
    sum += weight;
    ++expected;
    if (sum >= settings.top_p * total) break;
  }
  // Rounding may move the edge by one where the sum all but equals top-p. (sampling_bits_test.cc is exact.)
  RC_ASSERT(std::max(found.size(), expected) - std::min(found.size(), expected) <= 1u);
  for (size_t i = 0; i < found.size(); ++i) RC_ASSERT(found[i] == sorted[i].id);
}

}  // namespace
}  // namespace butterfly::model
