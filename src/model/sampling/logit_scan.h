// Passes over a row of logits: the largest, the k largest, and whether all of them are numbers.
#pragma once
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

// The first candidate. Throws Error kInvalidArgument for an empty row, a NaN, +infinity, or -infinity
// everywhere; -infinity elsewhere is a token that cannot be chosen.
Candidate largest_logit(std::span<const float> logits);

// The first `k` candidates in order; all if there are fewer. `logits` has passed largest_logit().
void largest_logits(std::span<const float> logits, size_t k, std::vector<Candidate>& to);

}  // namespace butterfly::model
