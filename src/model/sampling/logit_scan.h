// Passes over a row of logits: the largest, the k largest, and whether all of them are numbers.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace butterfly::model {

// Order everywhere: larger logit first, of equals (-0 equals 0) the smaller id.
struct Candidate {
  int32_t id = 0;
  float logit = 0;
  float weight = 0;  // probability times the sum of all weights

  friend bool comes_before(const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  }
};

// One look at a row of logits, from which the largest and the k largest follow. Keeps its memory for the next
// row.
class LogitScan {
 public:
  static constexpr size_t kBlock = 256;

  // The first candidate. `logits` is borrowed until the next call. Throws Error kInvalidArgument for an empty
  // row, a NaN, +infinity, or -infinity everywhere; -infinity elsewhere is a token that cannot be chosen.
  Candidate read(std::span<const float> logits);

  // The first `k` candidates in order; all if there are fewer.
  void top(size_t k, std::vector<Candidate>& to);

  // Calls `visit(id, logit)` for all that are not below `least`, in the order of ids.
  template <typename Visit>
  void at_least(float least, Visit&& visit) const {
    for (size_t block = 0; block < maxima_.size(); ++block) {
      if (maxima_[block] < least) continue;
      const size_t end = std::min((block + 1) * kBlock, logits_.size());
      for (size_t i = block * kBlock; i < end; ++i)
        if (logits_[i] >= least) visit(i, logits_[i]);
    }
  }

  // About the sum of the weights of all that are not below `least`: good to five digits.
  float weight_at_least(float least, std::span<const float> weights) const;

 private:
  std::span<const float> logits_;
  std::vector<float> maxima_;  // of the blocks
  std::vector<float> sorted_;  // scratch of top()
};

}  // namespace butterfly::model
