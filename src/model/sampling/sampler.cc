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

// The sum of all, and of each block. In eight lanes and in the order of blocks: fixed, and faster than one by
// one.
constexpr size_t kSumBlock = 256;
double sum_blocks(std::span<const float> values, std::vector<double>& sums) {
  constexpr size_t kLanes = 8;
  sums.clear();
  double total = 0;
  for (size_t begin = 0; begin < values.size(); begin += kSumBlock) {
    const size_t end = std::min(begin + kSumBlock, values.size());
    double lanes[kLanes] = {};
    size_t i = begin;
    for (; i + kLanes <= end; i += kLanes)
      for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += values[i + lane];
    for (; i < end; ++i) lanes[0] += values[i];
    const double sum =
        ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
    sums.push_back(sum);
    total += sum;
  }
  return total;
}

// The place in order of the candidate with which `enough(sum of the weights up to it)` becomes true; the last
// one if it never does. Orders only what it must: those before that place come before it, the others behind.
template <typename Enough>
size_t find_crossing(std::span<Candidate> all, Enough&& enough) {
  const auto before = [](const Candidate& a, const Candidate& b) { return comes_before(a, b); };
  size_t begin = 0, end = all.size();
  double sum = 0;
  while (end - begin > 32) {
    Candidate some[] = {all[begin], all[(begin + end) / 2], all[end - 1]};
    std::sort(some, some + 3, before);
    const Candidate pivot = some[1];  // so there is one behind it
    const auto from = all.begin() + static_cast<ptrdiff_t>(begin);
    const auto middle = std::partition(from, all.begin() + static_cast<ptrdiff_t>(end),
                                       [&](const Candidate& c) { return !comes_before(pivot, c); });
    double up_to = sum;
    for (auto it = from; it != middle; ++it) up_to += it->weight;
    const auto place = static_cast<size_t>(middle - all.begin());
    if (enough(up_to)) {
      end = place;
    } else {
      begin = place;
      sum = up_to;
    }
  }
  std::sort(all.begin() + static_cast<ptrdiff_t>(begin), all.begin() + static_cast<ptrdiff_t>(end), before);
  for (; begin + 1 < end; ++begin)
    if (enough(sum += all[begin].weight)) break;
  return begin;
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
  all_ = {};
  sorted_ = true;
  const Candidate first = scan_.read(logits);
  const SamplerSettings& s = settings_;
  if (s.temperature <= 0 || s.top_k == 1) {
    candidates_.assign(1, first);
    total_weight_ = 1;
    return first.id;
  }
  const bool use_top_k = s.top_k > 0 && static_cast<size_t>(s.top_k) < logits.size();
  if (!use_top_k && s.top_p >= 1 && s.min_p <= 0) return draw_from_all(logits, first.logit, position);
  if (use_top_k) {
    cut_top_k(first.logit);
    weigh(first.logit);
    return draw(position);
  }
  cut_from_all(logits, first);
  weigh(first.logit);
  return draw_unsorted(position);
}

std::span<const Candidate> Sampler::candidates() {
  if (!all_.empty()) {
    candidates_.resize(all_.size());
    for (size_t i = 0; i < all_.size(); ++i) candidates_[i] = {static_cast<int32_t>(i), all_[i], weights_[i]};
  }
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
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  adjusted_.resize(logits.size());
  for (size_t word = 0; word < allowed.size(); ++word) {
    const size_t begin = word * kTokensPerMaskWord;
    const size_t count = std::min(kTokensPerMaskWord, logits.size() - begin);
    const uint64_t bits = allowed[word];
    const float* from = logits.data() + begin;
    float* to = adjusted_.data() + begin;
    if (bits == 0)
      std::fill_n(to, count, kNever);
    else if (bits == ~uint64_t{0})
      std::copy_n(from, count, to);
    else
      for (size_t i = 0; i < count; ++i) to[i] = (bits >> i & 1) != 0 ? from[i] : kNever;
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

void Sampler::cut_top_k(float max) {
  const SamplerSettings& s = settings_;
  scan_.top(static_cast<size_t>(s.top_k), candidates_);
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

// Without top-k all tokens take part. Sorting all of them would cost milliseconds, and min-p and top-p keep
// only a front part: collect what can be in it, then find its end.
void Sampler::cut_from_all(std::span<const float> logits, const Candidate& first) {
  weights_.assign(logits.begin(), logits.end());
  kernels::softmax(weights_.data(), weights_.size());
  const double total = sum_blocks(weights_, sums_);
  collect(first, total);
  if (settings_.top_p >= 1) return;
  const double enough = double{settings_.top_p} * total;
  candidates_.resize(1 + find_crossing(candidates_, [&](double sum) { return sum >= enough; }));
}

// The front part of all tokens that min-p and top-p cannot go beyond, in the order of ids.
void Sampler::collect(const Candidate& first, double total) {
  const SamplerSettings& s = settings_;
  const float least = s.min_p * weights_[static_cast<size_t>(first.id)];
  // A little below what min-p says, since weights are rounded; they decide.
  float from =
      s.min_p > 0 ? first.logit + kernels::log_f32(s.min_p) - 0.01f : -std::numeric_limits<float>::infinity();
  if (s.top_p < 1 && s.min_p <= 0) {  // min-p alone leaves few
    // How far down there is enough for top-p: double the reach, then halve the last step.
    const double enough = double{s.top_p} * total * (1 + 1e-4);
    float reach = 2, step = 1;
    while (reach < 128 && scan_.weight_at_least(first.logit - reach, weights_) < enough)
      step = reach, reach *= 2;
    for (step /= 2; step >= 0.25f && reach < 128; step /= 2)
      if (scan_.weight_at_least(first.logit - reach + step, weights_) >= enough) reach -= step;
    if (reach < 128) from = std::max(from, first.logit - reach);
  }
  candidates_.clear();
  scan_.at_least(from, [&](size_t id, float logit) {
    const float weight = weights_[id];
    if (weight > 0 && weight >= least) candidates_.push_back({static_cast<int32_t>(id), logit, weight});
  });
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

// The same walk in order, without having sorted them all.
int32_t Sampler::draw_unsorted(uint64_t position) {
  sorted_ = false;
  total_weight_ = 0;
  for (const Candidate& candidate : candidates_) total_weight_ += candidate.weight;
  const double target = random_unit(settings_.seed, position) * total_weight_;
  const Candidate& found = candidates_[find_crossing(candidates_, [&](double sum) { return sum > target; })];
  if (found.weight > 0) return found.id;
  // Rounding has kept the sum below the target, and the last ones weigh nothing: the last possible one.
  const Candidate* last = nullptr;
  for (const Candidate& candidate : candidates_)
    if (candidate.weight > 0 && (last == nullptr || comes_before(*last, candidate))) last = &candidate;
  return last->id;
}

// Nothing is cut, so nothing need be sorted: the draw walks in the order of ids, over blocks where it can.
int32_t Sampler::draw_from_all(std::span<const float> logits, float max, uint64_t position) {
  weights_.resize(logits.size());
  // Differences first: the largest stays 0 however small the temperature is.
  for (size_t i = 0; i < logits.size(); ++i) weights_[i] = (logits[i] - max) / settings_.temperature;
  kernels::softmax(weights_.data(), weights_.size());
  all_ = logits;
  total_weight_ = sum_blocks(weights_, sums_);
  const double target = random_unit(settings_.seed, position) * total_weight_;
  double before = 0;
  for (size_t block = 0; block < sums_.size(); ++block) {
    if (before + sums_[block] > target) {
      double sum = before;
      const size_t end = std::min((block + 1) * kSumBlock, weights_.size());
      for (size_t i = block * kSumBlock; i < end; ++i) {
        sum += weights_[i];
        if (weights_[i] > 0 && sum > target) return static_cast<int32_t>(i);
      }
    }
    before += sums_[block];
  }
  // Rounding has kept every sum below the target: the last possible one.
  size_t last = weights_.size() - 1;
  while (weights_[last] <= 0) --last;
  return static_cast<int32_t>(last);
}

}  // namespace butterfly::model
