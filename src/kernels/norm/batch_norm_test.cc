// Batch normalisation: hand values, differences, then every target and thread count against the plain loops.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/norm/norm_backward.h"
#include "kernels/testing/gradient_check.h"
#include "kernels/testing/shape_sweep.h"

namespace butterfly::kernels {
namespace {

using Floats = std::vector<float>;

TEST(BatchNorm, HandValues) {
  const Floats x = {1, 10, 3, 30}, weight = {2, 1}, bias = {0.5f, 0};
  Floats mean(2), variance(2), y(4);
  ref::batch_norm_forward({2, 2, 0, weight.data(), bias.data()}, x.data(), mean.data(), variance.data(),
                          y.data());
  EXPECT_EQ(mean, (Floats{2, 20}));
  EXPECT_EQ(variance, (Floats{1, 100}));
  EXPECT_EQ(y, (Floats{-1.5f, -1, 2.5f, 1}));
}

TEST(BatchNorm, GradientsAreThoseOfTheForwardPass) {
  const size_t rows = 40, channels = 3;
  Floats x = random_floats(rows * channels, 1, 2.0f), weight = random_floats(channels, 2),
         bias = random_floats(channels, 3);
  const Floats dy = random_floats(x.size(), 4);
  const BatchNorm norm{rows, channels, 1e-2f, weight.data(), bias.data()};
  Floats mean(channels), variance(channels);
  const auto run = [&] {
    Floats y(x.size());
    ref::batch_norm_forward(norm, x.data(), mean.data(), variance.data(), y.data());
    return y;
  };
  run();
  Floats dx(x.size()), dweight(channels), dbias(channels);
  ref::batch_norm_backward(norm, x.data(), mean.data(), variance.data(), dy.data(), dx.data(), dweight.data(),
                           dbias.data(), false);
  expect_gradient(x, dx, dy, 1e-2f, 2e-3, 1, run);
  expect_gradient(weight, dweight, dy, 1e-1f, 1e-3, 1, run);
  expect_gradient(bias, dbias, dy, 1e-1f, 1e-3, 1, run);
}

TEST(BatchNorm, EveryTargetIsThePlainLoop) {
  for_each_target([&](const std::string& target) {
    for (size_t rows : {1, 5, 256, 700})
      for (size_t channels : {1, 3, 16, 33, 64, 100}) {
        ThreadPool pool(1 + (rows + channels) % 3);
        const size_t count = rows * channels, offset = channels % 4;
        const OffsetFloats x(random_floats(4999, 1, 3.0f), count, offset);
        const OffsetFloats weight(random_floats(channels, 2), channels, 1),
            bias(random_floats(100, 3), channels, 2);
        const bool plain = rows == 5;
        const BatchNorm norm{rows, channels, 1e-5f, plain ? nullptr : weight.data(),
                             plain ? nullptr : bias.data()};
        OffsetFloats mean(channels, 0), variance(channels, 0), y(count, 0), mean2(channels, 1),
            variance2(channels, 1), y2(count, 3);
        const std::string where =
            target + " rows " + std::to_string(rows) + " channels " + std::to_string(channels);
        const auto same = [&](const OffsetFloats& a, const OffsetFloats& b) {
          return first_difference(a.data(), b.data(), a.size()) == a.size();
        };
        ref::batch_norm_forward(norm, x.data(), mean.data(), variance.data(), y.data());
        batch_norm_forward(norm, x.data(), mean2.data(), variance2.data(), y2.data(), pool);
        ASSERT_TRUE(same(mean, mean2)) << where;
        ASSERT_TRUE(same(variance, variance2)) << where;
        ASSERT_TRUE(same(y, y2)) << where;
        batch_norm_apply(norm, x.data(), mean.data(), variance.data(), y2.data(), pool);
        ASSERT_TRUE(same(y, y2)) << where;
        OffsetFloats dy(random_floats(4993, 4), count, offset), dx(count, 0);
        OffsetFloats dweight(random_floats(100, 5), channels, 0), dbias(dweight), dweight2(dweight),
            dbias2(dweight);
        ref::batch_norm_backward(norm, x.data(), mean.data(), variance.data(), dy.data(), dx.data(),
                                 dweight.data(), dbias.data(), rows % 2 == 1);
        batch_norm_backward(norm, x.data(), mean.data(), variance.data(), dy.data(), dy.data(),
                            dweight2.data(), dbias2.data(), rows % 2 == 1, pool);
        ASSERT_TRUE(same(dx, dy)) << where;
        ASSERT_TRUE(same(dweight, dweight2)) << where;
        ASSERT_TRUE(same(dbias, dbias2)) << where;
      }
  });
}

}  // namespace
}  // namespace butterfly::kernels
