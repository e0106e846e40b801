#include "model/sampling/logit_scan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace butterfly::model {
namespace {

// Rows are looked at in blocks: integer maxima over a block need no branch and become vector code, and most
// blocks then need no second look.
constexpr size_t kBlock = 256;
constexpr size_t kLanes = 16;

// As integers, floats keep their order: -NaN < -infinity < ... < -0 < 0 < ... < infinity < NaN.
int32_t ordered(float value) {
  const auto bits = std::bit_cast<int32_t>(value);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}
float from_ordered(int32_t key) { return std::bit_cast<float>(key ^ ((key >> 31) & 0x7fffffff)); }

constexpr int32_t kInfinity = 0x7f800000;
constexpr int32_t kMinusInfinity = static_cast<int32_t>(0xff800000u ^ 0x7fffffffu);

struct Range {
  int32_t low = std::numeric_limits<int32_t>::max();
  int32_t high = std::numeric_limits<int32_t>::min();
};

Range full_block_range(const float* values) {
  int32_t low[kLanes], high[kLanes];
  for (size_t lane = 0; lane < kLanes; ++lane) low[lane] = high[lane] = ordered(values[lane]);
  for (size_t i = kLanes; i < kBlock; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const int32_t key = ordered(values[i + lane]);
      low[lane] = key < low[lane] ? key : low[lane];
      high[lane] = key > high[lane] ? key : high[lane];
    }
  }
  return {*std::min_element(low, low + kLanes), *std::max_element(high, high + kLanes)};
}

Range block_range(std::span<const float> values) {
  if (values.size() == kBlock) return full_block_range(values.data());
  Range range;
  for (const float value : values) {
    range.low = std::min(range.low, ordered(value));
    range.high = std::max(range.high, ordered(value));
  }
  return range;
}

[[noreturn]] void refuse_block(std::span<const float> values, size_t begin) {
  for (size_t i = 0; i < values.size(); ++i)
    if (std::isnan(values[i]) || values[i] == std::numeric_limits<float>::infinity())
      fail(Errc::kInvalidArgument, "logits: expected a finite number for token {}, found {}", begin + i,
           values[i]);
  fail(Errc::kInvalidArgument, "logits: expected finite numbers");
}

}  // namespace

Candidate largest_logit(std::span<const float> logits) {
  if (logits.empty()) fail(Errc::kInvalidArgument, "logits: expected at least one, found none");
  size_t best_block = 0;
  float best = -std::numeric_limits<float>::infinity();
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const auto values = logits.subspan(begin, std::min(kBlock, logits.size() - begin));
    const Range range = block_range(values);
    if (range.low < kMinusInfinity || range.high >= kInfinity) refuse_block(values, begin);
    const float high = from_ordered(range.high);
    if (high > best) {
      best = high;
      best_block = begin;
    }
  }
  if (best == -std::numeric_limits<float>::infinity())
    fail(Errc::kInvalidArgument,
         "logits: expected at least one token that can be chosen, found -infinity for all {}", logits.size());
  size_t id = best_block;
  while (logits[id] != best) ++id;
  return {static_cast<int32_t>(id), logits[id], 1.0f};
}

void largest_logits(std::span<const float> logits, size_t k, std::vector<Candidate>& to) {
  to.clear();
  k = std::min(k, logits.size());
  if (k == 0) return;
  // A heap of the best so far with the worst of them in front. Ids come in rising order, so a later equal
  // never wins.
  const auto better = [](const Candidate& a, const Candidate& b) { return comes_before(a, b); };
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const auto values = logits.subspan(begin, std::min(kBlock, logits.size() - begin));
    if (to.size() == k && from_ordered(block_range(values).high) <= to.front().logit) continue;
    for (size_t i = 0; i < values.size(); ++i) {
      const Candidate candidate{static_cast<int32_t>(begin + i), values[i]};
      if (to.size() < k) {
        to.push_back(candidate);
        std::push_heap(to.begin(), to.end(), better);
      } else if (candidate.logit > to.front().logit) {
        std::pop_heap(to.begin(), to.end(), better);
        to.back() = candidate;
        std::push_heap(to.begin(), to.end(), better);
      }
    }
  }
  std::sort_heap(to.begin(), to.end(), better);
}

}  // namespace butterfly::model
