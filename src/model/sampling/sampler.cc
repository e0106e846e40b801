#include "model/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/check.h"
#include "base/error.h"
#include "base/rng.h"
#include "kernels/math/math.h"
#include "kernels/rows/row_scan.h"
#include "model/sampling/token_constraint.h"

namespace butterfly::model {
namespace {

constexpr uint64_t kRandomStream =
    0x73616d706c65;  // "sample": keeps these numbers apart from other uses of a seed

// Uniform in [0, 1) with 53 random bits.
double random_unit(uint64_t seed, uint64_t position) {
  return static_cast<double>(random_u64(seed, kRandomStream, position) >> 11) * 0x1p-53;
}

size_t checked_id(int32_t id, size_t vocab, const char* what) {
  if (id < 0 || static_cast<size_t>(id) >= vocab)
    fail(Errc::kInvalidArgument, "{}: expected ids from 0 to {}, found {}", what, vocab - 1, id);
  return static_cast<size_t>(id);
}

// How many of `units` top-p wants.
uint64_t share_of(float share, uint64_t units) {
  return static_cast<uint64_t>(std::ceil(double{share} * static_cast<double>(units)));
}

void check_finite(const char* name, float value) {
  if (!std::isfinite(value))
    fail(Errc::kInvalidArgument, "{}: expected a finite number, found {}", name, value);
}

}  // namespace

void SamplerSettings::check() const {
  check_finite("temperature", temperature);
  check_finite("top_p", top_p);
  check_finite("min_p", min_p);
  check_finite("repeat_penalty", repeat_penalty);
  check_finite("frequency_penalty", frequency_penalty);
  check_finite("presence_penalty", presence_penalty);
  if (top_p < 0) fail(Errc::kInvalidArgument, "top_p: expected 0 to 1, found {}", top_p);
  if (min_p > 1) fail(Errc::kInvalidArgument, "min_p: expected 0 to 1, found {}", min_p);
  if (repeat_penalty <= 0)
    fail(Errc::kInvalidArgument, "repeat_penalty: expected more than 0, found {}", repeat_penalty);
  if (repeat_last_n < -1)
    fail(Errc::kInvalidArgument, "repeat_last_n: expected -1 or more, found {}", repeat_last_n);
  for (const auto& [id, bias] : logit_bias) {
    if (id < 0) fail(Errc::kInvalidArgument, "logit_bias: expected a token id, found {}", id);
    if (std::isnan(bias) || bias == std::numeric_limits<float>::infinity())
      fail(Errc::kInvalidArgument, "logit_bias: expected a number below infinity for token {}, found {}", id,
           bias);
  }
}

Sampler::Sampler(SamplerSettings settings) : settings_(std::move(settings)) { settings_.check(); }

int32_t Sampler::sample(std::span<const float> logits, std::span<const int32_t> history, uint64_t position,
                        std::span<const uint64_t> allowed) {
  logits = adjust(logits, history, allowed);
  const Candidate first = scan_.read(logits);
  const SamplerSettings& s = settings_;
  if (s.temperature <= 0 || s.top_k == 1) {
    kept_ = Kept::kListed;
    candidates_.assign(1, first);
    total_weight_ = 1;
    return first.id;
  }
  scale_ = {first.logit, s.temperature};
  if (s.top_k > 0 && static_cast<size_t>(s.top_k) < logits.size()) return draw_from_top_k(position);
  if (s.top_p < 1 || s.min_p > 0) return draw_from_cut(position);
  return draw_from_all(position);
}

size_t Sampler::candidates_max() const {
  const SamplerSettings& s = settings_;
  const bool penalties =
      s.repeat_last_n != 0 && (s.repeat_penalty != 1 || s.frequency_penalty != 0 || s.presence_penalty != 0);
  if (penalties || !s.logit_bias.empty()) return 0;  // they change the order
  if (s.temperature <= 0) return 1;
  return s.top_k > 0 ? static_cast<size_t>(s.top_k) : 0;
}

std::span<const Candidate> Sampler::candidates() {
  if (kept_ == Kept::kListed) return candidates_;
  LogitList kept;
  scan_.collect(kept_ == Kept::kAll ? -kInfinity : last_.logit, kInfinity, kept);
  candidates_.clear();
  for (size_t i = 0; i < kept.size(); ++i) {
    const Candidate c{kept.ids()[i], kept.logits()[i],
                      kernels::exp_f32((kept.logits()[i] - scale_.largest) / scale_.temperature)};
    if (kept_ == Kept::kAll || !comes_before(last_, c)) candidates_.push_back(c);
  }
  if (kept_ == Kept::kCut)
    std::sort(candidates_.begin(), candidates_.end(),
              [](const Candidate& a, const Candidate& b) { return comes_before(a, b); });
  kept_ = Kept::kListed;
  return candidates_;
}

// The logits after mask, bias and penalties: the caller's own where there are none.
std::span<const float> Sampler::adjust(std::span<const float> logits, std::span<const int32_t> history,
                                       std::span<const uint64_t> allowed) {
  const SamplerSettings& s = settings_;
  const bool penalties = s.repeat_last_n != 0 && !history.empty() &&
                         (s.repeat_penalty != 1 || s.frequency_penalty != 0 || s.presence_penalty != 0);
  if (!penalties && s.logit_bias.empty() && allowed.empty()) return logits;
  if (allowed.empty())
    adjusted_.assign(logits.begin(), logits.end());
  else
    forbid(logits, allowed);
  for (const auto& [id, bias] : s.logit_bias) adjusted_[checked_id(id, logits.size(), "logit_bias")] += bias;
  if (penalties) penalise(history);
  return adjusted_;
}

// -infinity for every token whose bit is 0.
void Sampler::forbid(std::span<const float> logits, std::span<const uint64_t> allowed) {
  BF_CHECK(allowed.size() == mask_words(logits.size()))
      << allowed.size() << " words of mask for " << logits.size() << " logits";
  adjusted_.resize(logits.size());
  kernels::keep_allowed(logits.data(), logits.size(), allowed.data(), adjusted_.data());
}

void Sampler::penalise(std::span<const int32_t> history) {
  const SamplerSettings& s = settings_;
  if (s.repeat_last_n > 0 && static_cast<size_t>(s.repeat_last_n) < history.size())
    history = history.last(static_cast<size_t>(s.repeat_last_n));
  recent_.assign(history.begin(), history.end());
  std::sort(recent_.begin(), recent_.end());
  for (size_t i = 0, end; i < recent_.size(); i = end) {
    end = i + 1;
    while (end < recent_.size() && recent_[end] == recent_[i]) ++end;
    float& logit = adjusted_[checked_id(recent_[i], adjusted_.size(), "history")];
    logit = logit <= 0 ? logit * s.repeat_penalty : logit / s.repeat_penalty;
    logit -= static_cast<float>(end - i) * s.frequency_penalty + s.presence_penalty;
  }
}

// Of so many units, the one that the random number names, counted from 1. Sets what probabilities refer to.
uint64_t Sampler::draw_units(uint64_t units, uint64_t position) {
  total_weight_ = static_cast<double>(units) / static_cast<double>(kernels::weight_units(1.0f));
  const double drawn = random_unit(settings_.seed, position) * static_cast<double>(units);
  return std::min(static_cast<uint64_t>(drawn), units - 1) + 1;  // the product may have been rounded up
}

int32_t Sampler::draw_from_top_k(uint64_t position) {
  const SamplerSettings& s = settings_;
  const float largest = scale_.largest;
  kept_ = Kept::kListed;
  scan_.top(static_cast<size_t>(s.top_k), candidates_);
  const float least = s.min_p > 0 ? largest + kernels::log_f32(s.min_p) : -kInfinity;
  uint64_t units = 0;
  for (Candidate& candidate : candidates_) {
    candidate.weight = kernels::exp_f32(candidate.logit - largest);
    units += kernels::weight_units(candidate.weight);
  }
  // Both cuts keep a front part, so together they keep the shorter one, and at least one.
  const uint64_t enough = s.top_p < 1 ? share_of(s.top_p, units) : units + 1;
  size_t kept = 0;
  uint64_t sum = 0;
  while (kept < candidates_.size() && (kept == 0 || candidates_[kept].logit >= least)) {
    sum += kernels::weight_units(candidates_[kept++].weight);
    if (sum >= enough) break;
  }
  candidates_.resize(kept);

  units = 0;
  for (Candidate& candidate : candidates_) {
    candidate.weight = kernels::exp_f32((candidate.logit - largest) / s.temperature);
    units += kernels::weight_units(candidate.weight);
  }
  const uint64_t drawn = draw_units(units, position);
  size_t place = 0;
  for (sum = 0; (sum += kernels::weight_units(candidates_[place].weight)) < drawn;) ++place;
  return candidates_[place].id;
}

// Without top-k all tokens take part; min-p and top-p keep a front part of them in order.
int32_t Sampler::draw_from_cut(uint64_t position) {
  const SamplerSettings& s = settings_;
  const float largest = scale_.largest;
  kept_ = Kept::kCut;
  order_.read(scan_);
  last_ = {std::numeric_limits<int32_t>::max(),
           s.min_p > 0 ? largest + kernels::log_f32(s.min_p) : -kInfinity};
  uint64_t equals_behind = 0;
  std::optional<uint64_t> units;
  if (s.top_p < 1) {
    const kernels::WeightScale plain{largest, 1};
    const uint64_t all = order_.sum_units(-kInfinity, plain);
    const auto place = order_.find(std::max<uint64_t>(share_of(s.top_p, all), 1), plain, -kInfinity, all);
    if (place.logit >= last_.logit) {
      last_ = {place.id, place.logit};
      equals_behind = place.equals_behind;
      if (s.temperature == 1) units = place.units;
    }
  }
  order_.keep_front(last_.logit);
  const uint64_t own = kernels::weight_units(kernels::exp_f32((last_.logit - largest) / s.temperature));
  if (!units) units = order_.sum_units(last_.logit, scale_) - equals_behind * own;
  return order_.find(draw_units(*units, position), scale_, last_.logit, *units + equals_behind * own).id;
}

// Nothing is cut, so nothing need be in order: the draw walks along the ids, over blocks where it can.
int32_t Sampler::draw_from_all(uint64_t position) {
  kept_ = Kept::kAll;
  scan_.sum_blocks(scale_, sums_);
  uint64_t units = 0;
  for (const uint64_t sum : sums_) units += sum;
  const uint64_t drawn = draw_units(units, position);
  size_t block = 0;
  uint64_t sum = 0;
  while (sum + sums_[block] < drawn) sum += sums_[block++];
  size_t id = block * LogitScan::kBlock;
  const auto own = [&](float logit) {
    return kernels::weight_units(kernels::exp_f32((logit - scale_.largest) / scale_.temperature));
  };
  while ((sum += own(scan_.logits()[id])) < drawn) ++id;
  return static_cast<int32_t>(id);
}

}  // namespace butterfly::model
