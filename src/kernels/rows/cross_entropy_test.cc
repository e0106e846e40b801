// Cross-entropy: hand values, differences, then every target and thread count against the plain loops.
#include "kernels/rows/cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/testing/gradient_check.h"
#include "kernels/testing/shape_sweep.h"

namespace butterfly::kernels {
namespace {

using Floats = std::vector<float>;

TEST(CrossEntropy, HandValues) {
  Floats logits = {0, 0, 0, 0, 1000, 0, 0, 0, 7, 7, 7, 7};
  const int32_t targets[] = {2, 0, kIgnoredTarget};
  Floats losses(3);
  ref::cross_entropy_backward(logits.data(), 3, 4, targets, 2.0f, losses.data());
  EXPECT_NEAR(losses[0], std::log(4.0), 1e-6);
  EXPECT_EQ(losses[1], 0);
  EXPECT_EQ(losses[2], 0);
  EXPECT_EQ(logits, (Floats{0.5f, 0.5f, -1.5f, 0.5f, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(CrossEntropy, TheGradientIsThatOfTheLoss) {
  const size_t rows = 2, vocab = 37;
  Floats logits = random_floats(rows * vocab, 1, 3.0f), losses(rows);
  const int32_t targets[] = {5, 36};
  Floats gradient = logits;
  ref::cross_entropy_backward(gradient.data(), rows, vocab, targets, 1.0f, losses.data());
  const Floats ones(rows, 1.0f);
  expect_gradient(logits, gradient, ones, 1e-2f, 1e-3, 1, [&] {
    Floats y(rows);
    ref::cross_entropy(logits.data(), rows, vocab, targets, y.data());
    return y;
  });
}

TEST(CrossEntropy, EveryTargetIsThePlainLoop) {
  for_each_target([&](const std::string& target) {
    for (size_t rows : {0, 1, 2, 7})
      for (size_t vocab : {1, 15, 16, 33, 100, 5000}) {
        ThreadPool pool(1 + rows % 3);
        OffsetFloats want(random_floats(4999, 1, 4.0f), rows * vocab, 0);
        OffsetFloats got(random_floats(4999, 1, 4.0f), rows * vocab, vocab % 4);
        std::vector<int32_t> targets(rows);
        for (size_t r = 0; r < rows; ++r)
          targets[r] = r == 4 ? kIgnoredTarget : static_cast<int32_t>(r * 977 % vocab);
        Floats want_loss(rows), got_loss(rows), loss_alone(rows);
        cross_entropy(got.data(), rows, vocab, targets.data(), loss_alone.data(), pool);
        ref::cross_entropy_backward(want.data(), rows, vocab, targets.data(), 0.3f, want_loss.data());
        cross_entropy_backward(got.data(), rows, vocab, targets.data(), 0.3f, got_loss.data(), pool);
        ASSERT_EQ(first_difference(want.data(), got.data(), want.size()), want.size()) << target;
        ASSERT_EQ(first_difference(want_loss.data(), got_loss.data(), rows), rows) << target;
        ASSERT_EQ(first_difference(want_loss.data(), loss_alone.data(), rows), rows) << target;
      }
  });
}

}  // namespace
}  // namespace butterfly::kernels
