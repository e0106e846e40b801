#include "model/sampling/logprobs.h"

#include "base/check.h"
#include "kernels/math/math.h"
#include "kernels/rows/softmax.h"

namespace butterfly::model {

void Logprobs::set(std::span<const float> logits) {
  const Candidate first = scan_.read(logits);
  logits_ = logits;
  weights_.assign(logits.begin(), logits.end());
  kernels::softmax(weights_.data(), weights_.size());
  // Small probabilities would vanish in a float, differences of logits do not.
  largest_ = first.logit;
  of_largest_ = kernels::log_f32(weights_[static_cast<size_t>(first.id)]);
}

float Logprobs::of(int32_t token) const {
  BF_CHECK(token >= 0 && static_cast<size_t>(token) < logits_.size()) << token;
  return (logits_[static_cast<size_t>(token)] - largest_) + of_largest_;
}

void Logprobs::top(size_t count, std::vector<Candidate>& to) {
  scan_.top(count, to);
  for (Candidate& candidate : to) candidate.logit = of(candidate.id);
}

}  // namespace butterfly::model
