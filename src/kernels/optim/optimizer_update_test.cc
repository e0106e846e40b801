// Optimizer steps: the formulas in double, then every target, size and thread count against the plain loops.
#include "kernels/optim/optimizer_update.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/testing/shape_sweep.h"

namespace butterfly::kernels {
namespace {

TEST(AdamUpdate, FollowsTheFormula) {
  for (bool decoupled : {true, false}) {
    double p = 0.5, m = 0, v = 0;
    float p32 = 0.5f, m32 = 0, v32 = 0;
    for (uint64_t step = 1; step <= 20; ++step) {
      const float grad = std::sin(static_cast<float>(step)) * 0.1f;
      const AdamStep s{.lr = 1e-2,
                       .beta1 = 0.9,
                       .beta2 = 0.95,
                       .eps = 1e-8,
                       .decay = 0.1,
                       .decoupled = decoupled,
                       .step = step,
                       .grad_scale = 0.5f};
      ref::adam_update(s, &grad, &p32, &m32, &v32, 1);
      double g = grad * 0.5;
      if (decoupled) p -= s.lr * s.decay * p;
      if (!decoupled) g += s.decay * p;
      m = s.beta1 * m + (1 - s.beta1) * g;
      v = s.beta2 * v + (1 - s.beta2) * g * g;
      const double c1 = 1 - std::pow(s.beta1, step), c2 = 1 - std::pow(s.beta2, step);
      p -= s.lr * (m / c1) / (std::sqrt(v / c2) + s.eps);
      ASSERT_NEAR(p32, p, 2e-6) << step;
      ASSERT_NEAR(m32, m, 1e-7) << step;
      ASSERT_NEAR(v32, v, 1e-8) << step;
    }
  }
}

TEST(SgdUpdate, FollowsTheFormula) {
  for (bool nesterov : {false, true}) {
    double p = 0.5, m = 0;
    float p32 = 0.5f, m32 = 77;  // what stood there does not count at first
    for (int step = 1; step <= 20; ++step) {
      const float grad = std::sin(static_cast<float>(step)) * 0.1f;
      const SgdStep s{.lr = 1e-2,
                      .momentum = 0.9,
                      .decay = 0.1,
                      .nesterov = nesterov,
                      .first = step == 1,
                      .grad_scale = 2};
      ref::sgd_update(s, &grad, &p32, &m32, 1);
      const double g = 2.0 * grad + 0.1 * p;
      m = step == 1 ? g : 0.9 * m + g;
      p -= 1e-2 * (nesterov ? g + 0.9 * m : m);
      ASSERT_NEAR(p32, p, 1e-6) << step;
    }
  }
}

TEST(OptimizerUpdate, EveryTargetIsThePlainLoop) {
  const auto grads = wild_floats(5000, 1), params = random_floats(5000, 2), moments = random_floats(5000, 3);
  for_each_shape([&](const std::string& target, size_t count, size_t offset) {
    ThreadPool pool(1 + count % 3);
    const OffsetFloats grad(grads, count, offset);
    OffsetFloats p(params, count, 0), m(moments, count, 0), v(count, 0);
    for (size_t i = 0; i < count; ++i) v.data()[i] = m.data()[i] * m.data()[i];
    OffsetFloats p2(count, offset), m2(count, (offset + 1) % 4), v2(count, (offset + 2) % 4);
    const auto copy = [&] {
      for (auto [to, from] : {std::pair{&p2, &p}, {&m2, &m}, {&v2, &v}})
        std::copy_n(from->data(), count, to->data());
    };
    const auto same = [&] {
      return first_difference(p.data(), p2.data(), count) == count &&
             first_difference(m.data(), m2.data(), count) == count &&
             first_difference(v.data(), v2.data(), count) == count;
    };
    for (bool decoupled : {true, false}) {
      copy();
      const AdamStep step{.decay = 0.01, .decoupled = decoupled, .step = 1 + count, .grad_scale = 0.7f};
      ref::adam_update(step, grad.data(), p.data(), m.data(), v.data(), count);
      adam_update(step, grad.data(), p2.data(), m2.data(), v2.data(), count, pool);
      ASSERT_TRUE(same()) << target << " adam " << count;
    }
    for (int variant = 0; variant < 4; ++variant) {
      copy();
      const SgdStep step{.momentum = 0.9, .decay = 0.01, .nesterov = variant == 1, .first = variant == 2};
      float* moment = variant == 3 ? nullptr : m.data();
      ref::sgd_update(step, grad.data(), p.data(), moment, count);
      sgd_update(step, grad.data(), p2.data(), variant == 3 ? nullptr : m2.data(), count, pool);
      ASSERT_TRUE(same()) << target << " sgd " << variant << " " << count;
    }
  });
}

TEST(SumSquaresBlocks, EveryTargetIsThePlainLoop) {
  const auto values = random_floats(3 * kNormBlock + 77, 5);
  for_each_target([&](const std::string& target) {
    for (size_t threads : {1, 2, 3}) {
      ThreadPool pool(threads);
      for (size_t count : {size_t{0}, size_t{1}, kNormBlock - 1, kNormBlock, values.size()}) {
        std::vector<float> got((count + kNormBlock - 1) / kNormBlock), want(got.size());
        sum_squares_blocks(values.data(), count, got.data(), pool);
        ref::sum_squares_blocks(values.data(), count, want.data());
        EXPECT_EQ(got, want) << target;
      }
    }
  });
}

TEST(AddTo, Adds) {
  ThreadPool pool(2);
  std::vector<float> a = random_floats(1001, 1), sum = random_floats(1001, 2), want(1001);
  for (size_t i = 0; i < 1001; ++i) want[i] = sum[i] + a[i];
  add_to(a.data(), sum.data(), 1001, pool);
  EXPECT_EQ(sum, want);
}

}  // namespace
}  // namespace butterfly::kernels
