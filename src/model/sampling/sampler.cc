#include "model/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/error.h"
#include "base/rng.h"
#include "kernels/math.h"
#include "kernels/softmax.h"
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
  const Candidate first = largest_logit(logits);
  const SamplerSettings& s = settings_;
  if (s.temperature <= 0 || s.top_k == 1) {
    candidates_.assign(1, first);
    total_weight_ = 1;
    return first.id;
  }
  const bool use_top_k = s.top_k > 0 && static_cast<size_t>(s.top_k) < logits.size();
  if (!use_top_k && s.top_p >= 1 && s.min_p <= 0) {
    keep_all(logits, first.logit);
  } else {
    if (use_top_k)
      cut_top_k(logits, first.logit);
    else
      cut_from_all(logits);
    weigh(first.logit);
  }
  return draw(position);
}

// The logits after mask, bias and penalties: the caller's own where there are none.
std::span<const float> Sampler::adjust(std::span<const float> logits, std::span<const int32_t> history,
                                       std::span<const uint64_t> allowed) {
  const SamplerSettings& s = settings_;
  const bool penalties = s.repeat_last_n != 0 && !history.empty() &&
                         (s.repeat_penalty != 1 || s.frequency_penalty != 0 || s.presence_penalty != 0);
  if (!penalties && s.logit_bias.empty() && allowed.empty()) return logits;
  adjusted_.assign(logits.begin(), logits.end());
  if (!allowed.empty()) forbid(allowed);
  for (const auto& [id, bias] : s.logit_bias) adjusted_[checked_id(id, logits.size(), "logit_bias")] += bias;
  if (penalties) penalise(history);
  return adjusted_;
}

// -infinity for every token whose bit is 0.
void Sampler::forbid(std::span<const uint64_t> allowed) {
  BF_CHECK(allowed.size() == mask_words(adjusted_.size()))
      << allowed.size() << " words of mask for " << adjusted_.size() << " logits";
  for (size_t word = 0; word < allowed.size(); ++word) {
    if (allowed[word] == ~uint64_t{0}) continue;
    const size_t begin = word * kTokensPerMaskWord;
    const size_t count = std::min(kTokensPerMaskWord, adjusted_.size() - begin);
    for (size_t i = 0; i < count; ++i)
      if ((allowed[word] >> i & 1) == 0) adjusted_[begin + i] = -std::numeric_limits<float>::infinity();
  }
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

void Sampler::cut_top_k(std::span<const float> logits, float max) {
  const SamplerSettings& s = settings_;
  largest_logits(logits, static_cast<size_t>(s.top_k), candidates_);
  double total = 0;
  for (Candidate& candidate : candidates_) {
    candidate.weight = kernels::exp_f32(candidate.logit - max);
    total += candidate.weight;
  }
  // Both cuts keep a front part, so together they keep the shorter one, and at least one.
  size_t kept = 0;
  double sum = 0;
  while (kept < candidates_.size() && (kept == 0 || candidates_[kept].weight >= s.min_p)) {
    sum += candidates_[kept++].weight;
    if (s.top_p < 1 && sum >= double{s.top_p} * total) break;
  }
  candidates_.resize(kept);
}

// Nothing is cut, so nothing need be sorted: the draw walks in the order of ids.
void Sampler::keep_all(std::span<const float> logits, float max) {
  weights_.resize(logits.size());
  // Differences first: the largest stays 0 however small the temperature is.
  for (size_t i = 0; i < logits.size(); ++i) weights_[i] = (logits[i] - max) / settings_.temperature;
  kernels::softmax(weights_.data(), weights_.size());
  candidates_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i)
    candidates_[i] = {static_cast<int32_t>(i), logits[i], weights_[i]};
}

// Without top-k all tokens take part. Sorting all of them would cost milliseconds, and min-p and top-p keep
// only a front part: drop by min-p first, then sort piece by piece until top-p is reached.
void Sampler::cut_from_all(std::span<const float> logits) {
  const SamplerSettings& s = settings_;
  weights_.assign(logits.begin(), logits.end());
  kernels::softmax(weights_.data(), weights_.size());
  const float least = s.min_p * *std::max_element(weights_.begin(), weights_.end());
  candidates_.clear();
  double total = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    total += weights_[i];
    if (weights_[i] > 0 && weights_[i] >= least)
      candidates_.push_back({static_cast<int32_t>(i), logits[i], weights_[i]});
  }
  const auto before = [](const Candidate& a, const Candidate& b) { return comes_before(a, b); };
  size_t sorted = 0;
  double sum = 0;
  for (size_t step = 256; sorted < candidates_.size(); step *= 4) {
    const size_t end = std::min(sorted + step, candidates_.size());
    const auto from = candidates_.begin() + static_cast<ptrdiff_t>(sorted);
    const auto to = candidates_.begin() + static_cast<ptrdiff_t>(end);
    if (to != candidates_.end()) std::nth_element(from, to, candidates_.end(), before);
    std::sort(from, to, before);
    for (; sorted < end; ++sorted) {
      sum += candidates_[sorted].weight;
      if (s.top_p < 1 && sum >= double{s.top_p} * total) return candidates_.resize(sorted + 1);
    }
  }
}

void Sampler::weigh(float max) {
  for (Candidate& candidate : candidates_)
    candidate.weight = kernels::exp_f32((candidate.logit - max) / settings_.temperature);
}

int32_t Sampler::draw(uint64_t position) {
  total_weight_ = 0;
  for (const Candidate& candidate : candidates_) total_weight_ += candidate.weight;
  const double target = random_unit(settings_.seed, position) * total_weight_;
  double sum = 0;
  int32_t chosen = candidates_.front().id;
  for (const Candidate& candidate : candidates_) {
    sum += candidate.weight;
    if (candidate.weight > 0)
      chosen = candidate.id;  // the last possible one stands if rounding keeps sum below target
    if (sum > target) break;
  }
  return chosen;
}

}  // namespace butterfly::model
