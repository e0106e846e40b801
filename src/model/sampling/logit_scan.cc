#include "model/sampling/logit_scan.h"

#include <cmath>
#include <functional>
#include <limits>

#include "base/error.h"

namespace butterfly::model {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kLanes = 16;

struct BlockLook {
  float largest = -kInfinity;  // NaNs are passed over
  bool has_nan = false;
};

// Without a branch, so that it becomes vector code.
BlockLook look_at_full(const float* values) {
  float largest[kLanes];
  int32_t nans[kLanes] = {};
  for (size_t lane = 0; lane < kLanes; ++lane) largest[lane] = -kInfinity;
  for (size_t i = 0; i < LogitScan::kBlock; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float value = values[i + lane];
      largest[lane] = value > largest[lane] ? value : largest[lane];
      nans[lane] |= value != value ? -1 : 0;
    }
  }
  BlockLook look;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    look.largest = largest[lane] > look.largest ? largest[lane] : look.largest;
    look.has_nan |= nans[lane] != 0;
  }
  return look;
}

BlockLook look_at(std::span<const float> values) {
  if (values.size() == LogitScan::kBlock) return look_at_full(values.data());
  BlockLook look;
  for (const float value : values) {
    look.largest = value > look.largest ? value : look.largest;
    look.has_nan |= std::isnan(value);
  }
  return look;
}

[[noreturn]] void refuse_block(std::span<const float> values, size_t begin) {
  for (size_t i = 0; i < values.size(); ++i)
    if (std::isnan(values[i]) || values[i] == kInfinity)
      fail(Errc::kInvalidArgument, "logits: expected a finite number for token {}, found {}", begin + i,
           values[i]);
  fail(Errc::kInvalidArgument, "logits: expected finite numbers");
}

}  // namespace

Candidate LogitScan::read(std::span<const float> logits) {
  if (logits.empty()) fail(Errc::kInvalidArgument, "logits: expected at least one, found none");
  logits_ = logits;
  maxima_.clear();
  size_t best_block = 0;
  float best = -kInfinity;
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const auto values = logits.subspan(begin, std::min(kBlock, logits.size() - begin));
    const BlockLook look = look_at(values);
    if (look.has_nan || look.largest == kInfinity) refuse_block(values, begin);
    maxima_.push_back(look.largest);
    if (look.largest > best) {
      best = look.largest;
      best_block = begin;
    }
  }
  if (best == -kInfinity)
    fail(Errc::kInvalidArgument,
         "logits: expected at least one token that can be chosen, found -infinity for all {}", logits.size());
  size_t id = best_block;
  while (logits[id] != best) ++id;
  return {static_cast<int32_t>(id), logits[id], 1.0f};
}

void LogitScan::top(size_t k, std::vector<Candidate>& to) {
  to.clear();
  k = std::min(k, logits_.size());
  if (k == 0) return;
  // The k-th largest of the blocks' maxima: so many logits at least are not below it, and few more are.
  float least = -kInfinity;
  if (k <= maxima_.size()) {
    sorted_ = maxima_;
    const auto place = sorted_.begin() + static_cast<ptrdiff_t>(k - 1);
    std::nth_element(sorted_.begin(), place, sorted_.end(), std::greater<>());
    least = *place;
  }
  at_least(least, [&](size_t id, float logit) { to.push_back({static_cast<int32_t>(id), logit}); });
  const auto better = [](const Candidate& a, const Candidate& b) { return comes_before(a, b); };
  if (to.size() > k) {
    std::nth_element(to.begin(), to.begin() + static_cast<ptrdiff_t>(k), to.end(), better);
    to.resize(k);
  }
  std::sort(to.begin(), to.end(), better);
}

float LogitScan::weight_at_least(float least, std::span<const float> weights) const {
  float lanes[kLanes] = {};
  for (size_t block = 0; block < maxima_.size(); ++block) {
    if (maxima_[block] < least) continue;
    const size_t end = std::min((block + 1) * kBlock, logits_.size());
    size_t i = block * kBlock;
    for (; i + kLanes <= end; i += kLanes)
      for (size_t lane = 0; lane < kLanes; ++lane)
        lanes[lane] += logits_[i + lane] >= least ? weights[i + lane] : 0.0f;
    for (; i < end; ++i) lanes[0] += logits_[i] >= least ? weights[i] : 0.0f;
  }
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

}  // namespace butterfly::model
