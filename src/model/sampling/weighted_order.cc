#include "model/sampling/weighted_order.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/check.h"

namespace butterfly::model {
namespace {

constexpr size_t kFew = 48;            // so many are sorted
constexpr size_t kBuckets = 512;       // of equal width, for more
constexpr size_t kSample = 2048;       // looked at to guess a range
constexpr size_t kSampleLeast = 64;    // of them in the range: else what is in it is few anyway
constexpr size_t kMany = 2 * kSample;  // in a list: another guess is cheaper than to look at all
constexpr int kGuesses = 4;

// Equal parts of a range of logits, from the largest down. Monotone, so equal logits share a bucket.
struct Buckets {
  float largest, per_logit;

  Buckets(float smallest_logit, float largest_logit)
      : largest(largest_logit), per_logit((kBuckets - 0.5f) / (largest_logit - smallest_logit)) {}
  // Not so when the range is wider than floats reach, or as narrow as subnormals.
  bool is_usable() const { return per_logit > 0 && per_logit < kInfinity; }
  size_t of(float logit) const {
    return std::min(static_cast<size_t>((largest - logit) * per_logit), kBuckets - 1);
  }
  float upper_edge(size_t bucket) const { return largest - static_cast<float>(bucket) / per_logit; }
};

// What is further down weighs nothing: exp(-32) is less than a tenth of a unit.
float raise(float least, kernels::WeightScale scale) {
  return std::max({least, scale.largest - 32 * scale.temperature, std::numeric_limits<float>::lowest()});
}

void take_every(std::span<const float> from, size_t count, std::vector<float>& to) {
  to.clear();
  const size_t step = std::max<size_t>(from.size() / count, 1);
  for (size_t i = 0; i < from.size(); i += step) to.push_back(from[i]);
}

uint64_t sum_of(const LogitList& list, kernels::WeightScale scale, float least = -kInfinity) {
  return kernels::sum_units(list.logits().data(), list.size(), least, scale);
}

}  // namespace

void WeightedOrder::read(const LogitScan& scan) {
  scan_ = &scan;
  row_sample_.clear();
  // Three blocks out of four have at least one that is not below this; about five tokens in four blocks are
  // not.
  maxima_.clear();
  for (const float maximum : scan.maxima())
    if (maximum > -kInfinity) maxima_.push_back(maximum);
  const auto place = maxima_.begin() + static_cast<ptrdiff_t>((maxima_.size() - 1) * 3 / 4);
  std::nth_element(maxima_.begin(), place, maxima_.end(), std::greater<>());
  head_least_ = *place;
  head_.clear();
  scan.collect(head_least_, kInfinity, head_);
}

std::span<const float> WeightedOrder::row_sample() {
  if (row_sample_.empty()) take_every(scan_->logits(), kSample, row_sample_);
  return row_sample_;
}

void WeightedOrder::keep_front(float least) {
  if (least >= head_least_) return;
  const auto sample = row_sample();
  const auto kept = std::ranges::count_if(sample, [&](float logit) { return logit >= least; });
  if (static_cast<size_t>(kept) > sample.size() / 3) return;
  head_least_ = least;
  head_.clear();
  scan_->collect(least, kInfinity, head_);
}

uint64_t WeightedOrder::sum_units(float least, kernels::WeightScale scale) const {
  if (least < head_least_) return scan_->sum_units(raise(least, scale), scale);
  return kernels::sum_units(head_.logits().data(), head_.size(), least, scale);
}

WeightedOrder::Place WeightedOrder::find(uint64_t need, kernels::WeightScale scale, float least,
                                         uint64_t units) {
  BF_DCHECK(need > 0 && need <= units) << need << " of " << units;
  const uint64_t head_units = sum_of(head_, scale);
  const bool in_head = need <= head_units;
  Bounds bounds{raise(least, scale), head_least_, head_units, units};
  if (in_head) bounds = {head_least_, kInfinity, 0, head_units};
  const LogitList* list = &head_;
  if (!in_head) {
    narrow([&](float from, float below, LogitList& to) { scan_->collect(from, below, to); }, row_sample(),
           need, scale, bounds, lists_[0]);
    list = &lists_[0];
  }
  // Each time with a sample of what is left, which is less and more alike.
  for (size_t size = 2 * list->size(); list->size() > kMany && list->size() <= size / 2;) {
    size = list->size();
    LogitList& next = list == &lists_[0] ? lists_[1] : lists_[0];
    take_every(list->logits(), kSample, sample_);
    narrow([&](float from, float below, LogitList& to) { to.collect(*list, from, below); }, sample_, need,
           scale, bounds, next);
    list = &next;
  }
  return find_in(*list, need, bounds.before, scale);
}

// Leaves the place in `to`, and bounds around it.
template <typename Collect>
void WeightedOrder::narrow(const Collect& collect, std::span<const float> sample, uint64_t need,
                           kernels::WeightScale scale, Bounds& b, LogitList& to) {
  for (int i = 0; i < kGuesses; ++i) {
    const double share = static_cast<double>(need - b.before) / static_cast<double>(b.units - b.before);
    const auto range = guess(sample, b, share, scale);
    if (!range) break;
    // One pass over everything: the side with fewer tokens, since weighing them is the dear part.
    const bool top = range->top_is_smaller;
    side_.clear();
    collect(top ? range->least : b.least, top ? b.below : range->below, side_);
    const uint64_t side = sum_of(side_, scale, top ? range->below : b.least);
    const uint64_t above = top ? b.before + side : b.units - side;
    if (need <= above) {
      b.least = range->below;
      b.units = above;
      continue;
    }
    b.below = range->below;
    b.before = above;
    to.clear();
    to.collect(side_, range->least, b.below);
    const uint64_t inside = sum_of(to, scale);
    if (need <= b.before + inside) {
      b.least = range->least;
      b.units = b.before + inside;
      return;
    }
    b.below = range->least;
    b.before += inside;
  }
  to.clear();
  collect(b.least, b.below, to);
}

// Where between the bounds about `share` of their units is reached from above; nothing if there are so few
// that all may be looked at, or all are the same.
std::optional<WeightedOrder::Range> WeightedOrder::guess(std::span<const float> sample, const Bounds& bounds,
                                                         double share, kernels::WeightScale scale) {
  in_range_.clear();
  in_range_.collect(sample, 0, bounds.least, bounds.below);
  if (in_range_.size() < kSampleLeast) return std::nullopt;
  const auto [smallest, largest] = std::ranges::minmax(in_range_.logits());
  const Buckets buckets(smallest, largest);
  if (!buckets.is_usable()) return std::nullopt;
  weights_.resize(in_range_.size());
  kernels::weigh_logits(in_range_.logits().data(), in_range_.size(), scale, weights_.data());
  shares_.assign(kBuckets, 0);
  double sum = 0, squares = 0;
  for (size_t i = 0; i < in_range_.size(); ++i) {
    const double weight = weights_[i];
    shares_[buckets.of(in_range_.logits()[i])] += weight;
    sum += weight;
    squares += weight * weight;
  }
  // Three standard deviations of what so many, so unequal ones say about a share. Not to the very end: there
  // are many tokens, and they weigh little.
  const double part = squares / (sum * sum);
  const double doubt = 3 * std::sqrt(std::max(share * (1 - share), 0.01) * part) + part;
  const double enough = std::min(share + doubt, 1 - doubt / 4);
  Range range{bounds.least, bounds.below, false};
  double above = 0;
  for (size_t bucket = 0; bucket < kBuckets; above += shares_[bucket++] / sum) {
    if (above <= share - doubt) range.below = std::min(bounds.below, buckets.upper_edge(bucket));
    if (above >= enough) {
      range.least = std::max(bounds.least, buckets.upper_edge(bucket));
      break;
    }
  }
  // Sums may be off by a rounding; what lies in no bucket is no range.
  if (range.least >= range.below) return std::nullopt;
  const auto top =
      std::ranges::count_if(in_range_.logits(), [&](float logit) { return logit >= range.least; });
  const auto rest =
      std::ranges::count_if(in_range_.logits(), [&](float logit) { return logit < range.below; });
  range.top_is_smaller = top < rest;
  return range;
}

// Among the tokens of a list, in front of which there are `before` units.
WeightedOrder::Place WeightedOrder::find_in(const LogitList& list, uint64_t need, uint64_t before,
                                            kernels::WeightScale scale) {
  const LogitList* all = &list;
  for (LogitList* other = &side_;; other = other == &side_ ? &in_range_ : &side_) {
    weights_.resize(all->size());
    kernels::weigh_logits(all->logits().data(), all->size(), scale, weights_.data());
    if (all->size() <= kFew) return walk(*all, need, before);
    const auto [smallest, largest] = std::ranges::minmax(all->logits());
    if (smallest == largest) {
      const uint64_t each = kernels::weight_units(weights_[0]);
      const auto place = static_cast<size_t>((need - before - 1) / each);
      return {largest, all->ids()[place], all->size() - 1 - place, before + (place + 1) * each};
    }
    const Buckets buckets(smallest, largest);
    if (!buckets.is_usable()) return walk(*all, need, before);
    buckets_.assign(kBuckets, 0);
    for (size_t i = 0; i < all->size(); ++i)
      buckets_[buckets.of(all->logits()[i])] += kernels::weight_units(weights_[i]);
    size_t bucket = 0;
    while (before + buckets_[bucket] < need) before += buckets_[bucket++];
    other->clear();
    for (size_t i = 0; i < all->size(); ++i)
      if (buckets.of(all->logits()[i]) == bucket) other->push_back(all->logits()[i], all->ids()[i]);
    all = other;
  }
}

WeightedOrder::Place WeightedOrder::walk(const LogitList& list, uint64_t need, uint64_t before) {
  few_.clear();
  for (size_t i = 0; i < list.size(); ++i) few_.push_back({list.ids()[i], list.logits()[i], weights_[i]});
  std::sort(few_.begin(), few_.end(),
            [](const Candidate& a, const Candidate& b) { return comes_before(a, b); });
  size_t place = 0;
  while ((before += kernels::weight_units(few_[place].weight)) < need) ++place;
  size_t end = place + 1;
  while (end < few_.size() && few_[end].logit == few_[place].logit) ++end;
  return {few_[place].logit, few_[place].id, end - 1 - place, before};
}

}  // namespace butterfly::model
