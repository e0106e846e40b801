#include "model/sampling/logit_scan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/error.h"
#include "kernels/rows/row_scan.h"

namespace butterfly::model {
namespace {

[[noreturn]] void refuse(std::span<const float> logits) {
  for (size_t i = 0; i < logits.size(); ++i)
    if (std::isnan(logits[i]) || logits[i] == kInfinity)
      fail(Errc::kInvalidArgument, "logits: expected a finite number for token {}, found {}", i, logits[i]);
  fail(Errc::kInvalidArgument, "logits: expected finite numbers");
}

}  // namespace

void LogitList::make_room(size_t more) {
  if (logits_.size() >= size_ + more) return;
  logits_.resize(std::max(size_ + more, size_ * 2));
  ids_.resize(logits_.size());
}

void LogitList::push_back(float logit, int32_t id) {
  make_room(1);
  logits_[size_] = logit;
  ids_[size_++] = id;
}

void LogitList::collect(std::span<const float> piece, int32_t first, float least, float below) {
  make_room(piece.size());
  size_ += kernels::collect_between(piece.data(), piece.size(), first, least, below, logits_.data() + size_,
                                    ids_.data() + size_);
}

void LogitList::collect(const LogitList& from, float least, float below) {
  const size_t before = size_;
  collect(from.logits(), 0, least, below);
  for (size_t i = before; i < size_; ++i) ids_[i] = from.ids()[static_cast<size_t>(ids_[i])];
}

template <typename Visit>
void LogitScan::for_each_run(float least, Visit&& visit) const {
  // Short enough that a list of what is found has little room to spare.
  constexpr size_t kRun = 8;
  for (size_t block = 0; block < maxima_.size();) {
    if (maxima_[block] < least) {
      ++block;
      continue;
    }
    size_t end = block + 1;
    while (end < maxima_.size() && end - block < kRun && maxima_[end] >= least) ++end;
    visit(block * kBlock, std::min(end * kBlock, logits_.size()));
    block = end;
  }
}

Candidate LogitScan::read(std::span<const float> logits) {
  if (logits.empty()) fail(Errc::kInvalidArgument, "logits: expected at least one, found none");
  if (logits.size() >= kernels::kWeightCountMax)
    fail(Errc::kInvalidArgument, "logits: expected fewer than {}, found {}", kernels::kWeightCountMax,
         logits.size());
  logits_ = logits;
  maxima_.resize((logits.size() + kBlock - 1) / kBlock);
  const bool numbers = kernels::block_maxima(logits.data(), logits.size(), kBlock, maxima_.data());
  const auto best = std::max_element(maxima_.begin(), maxima_.end());
  if (!numbers || *best == kInfinity) refuse(logits);
  if (*best == -kInfinity)
    fail(Errc::kInvalidArgument,
         "logits: expected at least one token that can be chosen, found -infinity for all {}", logits.size());
  auto id = static_cast<size_t>(best - maxima_.begin()) * kBlock;
  while (logits[id] != *best) ++id;
  return {static_cast<int32_t>(id), logits[id], 1.0f};
}

void LogitScan::collect(float least, float below, LogitList& to) const {
  for_each_run(least, [&](size_t begin, size_t end) {
    to.collect(logits_.subspan(begin, end - begin), static_cast<int32_t>(begin), least, below);
  });
}

uint64_t LogitScan::sum_units(float least, kernels::WeightScale scale) const {
  uint64_t sum = 0;
  for_each_run(least, [&](size_t begin, size_t end) {
    sum += kernels::sum_units(logits_.data() + begin, end - begin, least, scale);
  });
  return sum;
}

void LogitScan::sum_blocks(kernels::WeightScale scale, std::vector<uint64_t>& sums) const {
  sums.resize(maxima_.size());
  kernels::sum_unit_blocks(logits_.data(), logits_.size(), kBlock, scale, sums.data());
}

void LogitScan::top(size_t k, std::vector<Candidate>& to) {
  to.clear();
  k = std::min(k, logits_.size());
  if (k == 0) return;
  // The k-th largest of the blocks' maxima: so many logits at least are not below it, and few more are.
  float least = std::numeric_limits<float>::lowest();
  if (k <= maxima_.size()) {
    sorted_ = maxima_;
    const auto place = sorted_.begin() + static_cast<ptrdiff_t>(k - 1);
    std::nth_element(sorted_.begin(), place, sorted_.end(), std::greater<>());
    least = std::max(least, *place);
  }
  best_.clear();
  collect(least, kInfinity, best_);
  for (size_t i = 0; i < best_.size(); ++i) to.push_back({best_.ids()[i], best_.logits()[i]});
  const auto better = [](const Candidate& a, const Candidate& b) { return comes_before(a, b); };
  if (to.size() > k) {
    std::nth_element(to.begin(), to.begin() + static_cast<ptrdiff_t>(k), to.end(), better);
    to.resize(k);
  }
  std::sort(to.begin(), to.end(), better);
}

}  // namespace butterfly::model
