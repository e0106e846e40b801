// Logarithms of probabilities against plain double arithmetic.
#include "model/sampling/logprobs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/rng.h"

namespace butterfly::model {
namespace {

TEST(Logprobs, AgreeWithDoubles) {
  for (size_t vocab : {1, 2, 31, 1000, 32003}) {
    std::vector<float> logits(vocab);
    for (size_t i = 0; i < vocab; ++i) logits[i] = 5 * random_normal(3, vocab, i);
    double sum = 0;
    for (float logit : logits) sum += std::exp(double{logit});
    Logprobs logprobs;
    logprobs.set(logits);
    for (size_t i = 0; i < vocab; i += 1 + vocab / 97)
      EXPECT_NEAR(logprobs.of(static_cast<int32_t>(i)), logits[i] - std::log(sum), 1e-5) << vocab << " " << i;
  }
}

TEST(Logprobs, FarBelowTheSmallestFloat) {
  const std::vector<float> logits = {0, -300, -std::numeric_limits<float>::infinity()};
  Logprobs logprobs;
  logprobs.set(logits);
  EXPECT_EQ(logprobs.of(0), 0);
  EXPECT_EQ(logprobs.of(1), -300);
  EXPECT_EQ(logprobs.of(2), -std::numeric_limits<float>::infinity());
}

TEST(Logprobs, TopIsInOrder) {
  const std::vector<float> logits = {1, 3, 2, 3};
  Logprobs logprobs;
  logprobs.set(logits);
  std::vector<Candidate> top;
  logprobs.top(3, top);
  ASSERT_EQ(top.size(), 3u);
  EXPECT_EQ(top[0].id, 1);
  EXPECT_EQ(top[1].id, 3) << "of equals the smaller id first";
  EXPECT_EQ(top[2].id, 2);
  EXPECT_EQ(top[0].logit, logprobs.of(1));
  logprobs.top(9, top);
  EXPECT_EQ(top.size(), 4u);
}

TEST(Logprobs, RefusesWhatIsNoNumber) {
  Logprobs logprobs;
  const std::vector<float> logits = {1, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_THROW(logprobs.set(logits), Error);
}

}  // namespace
}  // namespace butterfly::model
