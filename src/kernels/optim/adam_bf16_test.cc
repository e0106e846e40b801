// Adam with bf16 moments: every target against the plain loop, and near Adam with float moments.
#include "kernels/optim/adam_bf16.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/simd/half.h"
#include "kernels/testing/shape_sweep.h"

namespace butterfly::kernels {
namespace {

TEST(AdamBf16, EveryTargetIsThePlainLoop) {
  ThreadPool pool(2);
  for_each_target([&](const std::string& target) {
    for (const size_t count : {0, 1, 7, 16, 33, 1000, 9001}) {
      const auto grad = random_floats(count, 1);
      auto want = random_floats(count, 2), got = want;
      std::vector<uint16_t> m(count, 0x3c00), v(count, 0x3b80), m_got = m, v_got = v;
      for (uint64_t step = 1; step < 4; ++step) {
        const AdamStep adam{
            .lr = 0.01, .decay = 0.1, .decoupled = step != 2, .step = step, .grad_scale = 0.5f};
        ref::adam_update_bf16(adam, grad.data(), want.data(), m.data(), v.data(), 0, count,
                              static_cast<uint32_t>(step * 77));
        adam_update_bf16(adam, grad.data(), got.data(), m_got.data(), v_got.data(), count,
                         static_cast<uint32_t>(step * 77), pool);
      }
      ASSERT_EQ(first_difference(want.data(), got.data(), count), count) << target;
      ASSERT_EQ(m_got, m) << target;
      ASSERT_EQ(v_got, v) << target;
    }
  });
}

// Parts of an array get what they get when it is updated whole.
TEST(AdamBf16, PartsAreTheWhole) {
  constexpr size_t kCount = 1000;
  ThreadPool pool(2);
  const auto grad = random_floats(kCount, 1);
  auto whole = random_floats(kCount, 2), parts = whole;
  std::vector<uint16_t> m(kCount, 0x3c00), v(kCount, 0x3b80), m_parts = m, v_parts = v;
  const AdamStep adam{.lr = 0.01, .step = 3};
  adam_update_bf16(adam, grad.data(), whole.data(), m.data(), v.data(), kCount, 5, pool);
  for (size_t begin = 0, end; begin < kCount; begin = end) {
    end = std::min(kCount, begin + 333);
    adam_update_bf16(adam, grad.data() + begin, parts.data() + begin, m_parts.data() + begin,
                     v_parts.data() + begin, end - begin, 5, pool, begin);
  }
  EXPECT_EQ(parts, whole);
  EXPECT_EQ(m_parts, m);
  EXPECT_EQ(v_parts, v);
}

// Rounded to nearest, v would stay at its start. At random it follows the mean of the squares.
TEST(AdamBf16, SmallChangesAreNotLost) {
  constexpr size_t kCount = 4096;
  ThreadPool pool(1);
  const std::vector<float> grad(kCount, 0.5f);
  std::vector<float> param(kCount, 1.0f);
  std::vector<uint16_t> m(kCount, f32_to_bf16(1.0f)), v(kCount, f32_to_bf16(1.0f));
  for (uint64_t step = 1; step <= 1000; ++step)
    adam_update_bf16({.lr = 0, .step = step}, grad.data(), param.data(), m.data(), v.data(), kCount,
                     static_cast<uint32_t>(step), pool);
  double mean = 0;
  for (const uint16_t value : v) mean += bf16_to_f32(value) / kCount;
  EXPECT_NEAR(mean, 0.25 + 0.75 * std::pow(0.999, 1000), 0.01);
}

}  // namespace
}  // namespace butterfly::kernels
