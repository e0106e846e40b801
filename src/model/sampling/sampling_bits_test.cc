// The sampler against its definition: sort all tokens, walk along them. The same token, on every target.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/rng.h"
#include "kernels/math/math.h"
#include "kernels/simd/target.h"
#include "model/sampling/sampler.h"
#include "model/sampling/testing/rows.h"

namespace butterfly::model {
namespace {

using kernels::exp_f32;
using kernels::weight_units;

struct Plain {
  std::vector<Candidate> kept;
  int32_t token = 0;
};

// As sampler.h tells it.
Plain choose_plainly(const SamplerSettings& s, std::span<const float> logits, uint64_t position) {
  Plain plain;
  std::vector<Candidate>& all = plain.kept;
  for (size_t i = 0; i < logits.size(); ++i) all.push_back({static_cast<int32_t>(i), logits[i]});
  const bool top_k = s.top_k > 0 && static_cast<size_t>(s.top_k) < all.size();
  if (top_k || s.top_p < 1 || s.min_p > 0)
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return comes_before(a, b); });
  const float largest =
      std::max_element(all.begin(), all.end(), [](auto& a, auto& b) { return a.logit < b.logit; })->logit;
  if (top_k) {
    std::erase_if(all, [](const Candidate& c) { return c.logit == -std::numeric_limits<float>::infinity(); });
    all.resize(std::min(all.size(), static_cast<size_t>(s.top_k)));
  }
  if (s.top_p < 1) {
    uint64_t units = 0, sum = 0;
    for (const Candidate& c : all) units += weight_units(exp_f32(c.logit - largest));
    const double enough = std::ceil(double{s.top_p} * static_cast<double>(units));
    size_t kept = 0;
    do {
      sum += weight_units(exp_f32(all[kept++].logit - largest));
    } while (sum < static_cast<uint64_t>(enough) || sum == 0);
    all.resize(kept);
  }
  if (s.min_p > 0)
    std::erase_if(all, [&](const Candidate& c) { return c.logit < largest + kernels::log_f32(s.min_p); });
  uint64_t units = 0, sum = 0;
  for (Candidate& c : all) {
    c.weight = exp_f32((c.logit - largest) / s.temperature);
    units += weight_units(c.weight);
  }
  const double random = static_cast<double>(random_u64(s.seed, 0x73616d706c65, position) >> 11) * 0x1p-53;
  const auto drawn = std::min(static_cast<uint64_t>(random * static_cast<double>(units)), units - 1);
  for (const Candidate& c : all) {
    plain.token = c.id;
    if ((sum += weight_units(c.weight)) > drawn) break;
  }
  return plain;
}

std::vector<SamplerSettings> ways_to_sample() {
  std::vector<SamplerSettings> ways;
  for (const int32_t top_k : {0, 40, 3000})
    for (const float top_p : {1.0f, 0.95f, 0.3f, 0.0f})
      for (const float min_p : {0.0f, 0.05f, 1e-4f, 1.0f})
        for (const float temperature : {1.0f, 0.8f, 3.0f}) {
          SamplerSettings settings;
          settings.top_k = top_k;
          settings.top_p = top_p;
          settings.min_p = min_p;
          settings.temperature = temperature;
          settings.seed = 5;
          ways.push_back(settings);
        }
  return ways;
}

TEST(SamplingBits, EveryWayIsItsDefinition) {
  const auto ways = ways_to_sample();
  for (const size_t size : {1u, 2u, 300u, 20'000u}) {
    for (const NamedRow& row : rows_of_every_shape(size, size)) {
      for (size_t i = size % 11; i < ways.size(); i += size <= 300 ? 1 : 17) {
        const SamplerSettings& s = ways[i];
        SCOPED_TRACE(::testing::Message()
                     << row.name << " " << size << ", top-k " << s.top_k << ", top-p " << s.top_p
                     << ", min-p " << s.min_p << ", temperature " << s.temperature);
        const Plain plain = choose_plainly(s, row.logits, i);
        Sampler sampler(s);
        ASSERT_EQ(sampler.sample(row.logits, {}, i), plain.token);
        ASSERT_TRUE(std::ranges::equal(
            sampler.candidates(), plain.kept,
            [](const auto& a, const auto& b) { return a.id == b.id && a.weight == b.weight; }))
            << sampler.candidates().size() << " kept, expected " << plain.kept.size();
      }
    }
  }
}

TEST(SamplingBits, EveryTargetChoosesTheSame) {
  const auto rows = rows_of_every_shape(10'000, 3);
  std::vector<int32_t> expected;
  kernels::for_each_target([&](const std::string& target) {
    std::vector<int32_t> tokens;
    uint64_t position = 0;
    for (const SamplerSettings& settings : ways_to_sample()) {
      Sampler sampler(settings);
      for (size_t i = position % 8; i < rows.size(); i += 8)
        tokens.push_back(sampler.sample(rows[i].logits, {}, position));
      ++position;
    }
    if (expected.empty()) expected = tokens;
    ASSERT_EQ(tokens, expected) << target;
  });
}

}  // namespace
}  // namespace butterfly::model
