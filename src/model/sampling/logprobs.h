// Logarithms of the probabilities that a row of logits gives.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "model/sampling/logit_scan.h"

namespace butterfly::model {

// Of one row at a time; the bits depend on the row alone. One thread.
class Logprobs {
 public:
  // `logits` is borrowed until the next call. Throws as LogitScan::read() does.
  void set(std::span<const float> logits);

  // Natural logarithm of the probability of a token; -infinity if it is 0.
  float of(int32_t token) const;
  // The `count` likeliest tokens in order; their `logit` is their logarithm here.
  void top(size_t count, std::vector<Candidate>& to);

 private:
  LogitScan scan_;
  std::span<const float> logits_;
  std::vector<float> weights_;
  float largest_ = 0;
  float of_largest_ = 0;
};

}  // namespace butterfly::model
