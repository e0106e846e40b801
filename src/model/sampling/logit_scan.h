// Passes over a row of logits: the largest, the k largest, those in a range, sums of weights, and whether all
// of them are numbers.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kernels/rows/weight_units.h"

namespace butterfly::model {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Order everywhere: larger logit first, of equals (-0 equals 0) the smaller id.
struct Candidate {
  int32_t id = 0;
  float logit = 0;
  float weight = 0;  // probability times the sum of all weights

  friend bool comes_before(const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  }
};

// Some logits and their ids, in the order of ids. Keeps its memory. One thread.
class LogitList {
 public:
  void clear() { size_ = 0; }
  size_t size() const { return size_; }
  std::span<const float> logits() const { return {logits_.data(), size_}; }
  std::span<const int32_t> ids() const { return {ids_.data(), size_}; }

  void push_back(float logit, int32_t id);
  // Appends those with least <= logit < below of a piece of a row that begins with the id `first`.
  void collect(std::span<const float> piece, int32_t first, float least, float below);
  // Of another list.
  void collect(const LogitList& from, float least, float below);

 private:
  void make_room(size_t more);
  std::vector<float> logits_;  // as large as was ever needed: `size_` of them count
  std::vector<int32_t> ids_;
  size_t size_ = 0;
};

// One look at a row of logits, from which the largest and the k largest follow. Keeps its memory for the next
// row. One thread.
class LogitScan {
 public:
  static constexpr size_t kBlock = 256;

  // The first candidate. `logits` is borrowed until the next call. Throws Error kInvalidArgument for an empty
  // row or one of more than four million, a NaN, +infinity, or -infinity everywhere; -infinity elsewhere is a
  // token that cannot be chosen.
  Candidate read(std::span<const float> logits);

  // The first `k` candidates in order that can be chosen; all if there are fewer.
  void top(size_t k, std::vector<Candidate>& to);

  // Appends those with least <= logit < below.
  void collect(float least, float below, LogitList& to) const;

  // Units of weight of all that are not below `least`; and those of every block.
  uint64_t sum_units(float least, kernels::WeightScale scale) const;
  void sum_blocks(kernels::WeightScale scale, std::vector<uint64_t>& sums) const;

  std::span<const float> logits() const { return logits_; }
  std::span<const float> maxima() const { return maxima_; }  // of the blocks

 private:
  // Calls visit(begin, end) for runs of blocks in which something is not below `least`.
  template <typename Visit>
  void for_each_run(float least, Visit&& visit) const;

  std::span<const float> logits_;
  std::vector<float> maxima_;
  std::vector<float> sorted_;  // scratch of top()
  LogitList best_;             // scratch of top()
};

}  // namespace butterfly::model
