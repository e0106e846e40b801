// Pooling: hand values and finite differences, then every target and thread count against the plain loops.
#include "kernels/pool2d/pool2d.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/testing/gradient_check.h"
#include "kernels/testing/shape_sweep.h"

namespace butterfly::kernels {
namespace {

using Floats = std::vector<float>;

TEST(Pool2d, HandValues) {
  const Pool2d p{
      .in_h = 3, .in_w = 3, .channels = 1, .kernel_h = 2, .kernel_w = 2, .pad_top = 1, .pad_left = 1};
  ASSERT_EQ(p.out_h(), 3u);
  const Floats x = {1, 5, 3, 4, 5, 6, 7, 8, -9};
  Floats y(9), dx(9);
  std::vector<uint16_t> taps(9);
  ref::max_pool2d_forward(p, x.data(), y.data(), taps.data());
  EXPECT_EQ(y, (Floats{1, 5, 5, 4, 5, 6, 7, 8, 8}));
  EXPECT_EQ(taps, (std::vector<uint16_t>{3, 3, 2, 3, 1, 3, 3, 3, 2}));  // of equal ones the first
  const Floats dy = {1, 2, 4, 8, 16, 32, 64, 128, 256};
  ref::max_pool2d_backward(p, dy.data(), taps.data(), dx.data());
  EXPECT_EQ(dx, (Floats{1, 22, 0, 8, 0, 32, 64, 384, 0}));
  ref::avg_pool2d_forward(p, x.data(), y.data());
  EXPECT_EQ(y, (Floats{1, 3, 4, 2.5f, 3.75f, 4.75f, 5.5f, 6, 2.5f}));
  Pool2d whole = p;
  whole.count_padding = true;
  ref::avg_pool2d_forward(whole, x.data(), y.data());
  EXPECT_EQ(y[0], 0.25f);
  ref::avg_pool2d_backward(whole, dy.data(), dx.data());
  EXPECT_EQ(dx[0], (1 + 2 + 8 + 16) / 4.0f);
}

TEST(Pool2d, ANanIsKept) {
  const Pool2d p{.in_h = 1, .in_w = 4, .channels = 1, .kernel_h = 1, .kernel_w = 4};
  const Floats x = {1, NAN, 9, 2};
  float y = 0;
  uint16_t tap = 0;
  ref::max_pool2d_forward(p, x.data(), &y, &tap);
  EXPECT_TRUE(std::isnan(y));
  EXPECT_EQ(tap, 1);
}

const Pool2d kCases[] = {
    {.batch = 2,
     .in_h = 24,
     .in_w = 24,
     .channels = 5,
     .kernel_h = 2,
     .kernel_w = 2,
     .stride_h = 2,
     .stride_w = 2},
    {.batch = 2,
     .in_h = 13,
     .in_w = 11,
     .channels = 64,
     .kernel_h = 3,
     .kernel_w = 3,
     .stride_h = 2,
     .stride_w = 2,
     .pad_top = 1,
     .pad_left = 1,
     .pad_bottom = 1,
     .pad_right = 1},
    {.batch = 3, .in_h = 7, .in_w = 7, .channels = 35, .kernel_h = 7, .kernel_w = 7},
    {.batch = 1,
     .in_h = 9,
     .in_w = 10,
     .channels = 17,
     .kernel_h = 3,
     .kernel_w = 2,
     .stride_h = 1,
     .stride_w = 3,
     .pad_top = 2,
     .pad_left = 1,
     .count_padding = true},
    {.batch = 1,
     .in_h = 8,
     .in_w = 8,
     .channels = 3,
     .kernel_h = 2,
     .kernel_w = 2,
     .stride_h = 3,
     .stride_w = 3},
    {.batch = 1, .in_h = 300, .in_w = 220, .channels = 2, .kernel_h = 300, .kernel_w = 218},
    {.batch = 1, .in_h = 2, .in_w = 2, .channels = 3, .kernel_h = 3, .kernel_w = 3},
};

TEST(Pool2d, GradientsAreThoseOfTheForwardPass) {
  for (const Pool2d& p : kCases) {
    Floats x = random_floats(p.x_count(), 1);
    const Floats dy = random_floats(p.y_count(), 2);
    Floats dx(x.size());
    ref::avg_pool2d_backward(p, dy.data(), dx.data());
    expect_gradient(x, dx, dy, 1.0f, 1e-3, x.size() / 40 + 1, [&] {
      Floats y(p.y_count());
      ref::avg_pool2d_forward(p, x.data(), y.data());
      return y;
    });
    const auto run = [&] {
      Floats y(p.y_count());
      ref::max_pool2d_forward(p, x.data(), y.data(), nullptr);
      return y;
    };
    std::vector<uint16_t> taps(p.y_count());
    Floats y(p.y_count());
    ref::max_pool2d_forward(p, x.data(), y.data(), taps.data());
    ref::max_pool2d_backward(p, dy.data(), taps.data(), dx.data());
    expect_gradient(x, dx, dy, 1e-5f, 2e-2, x.size() / 40 + 1, run);
  }
}

TEST(Pool2d, EveryTargetIsThePlainLoop) {
  for_each_target([&](const std::string& target) {
    for (const Pool2d& p : kCases)
      for (size_t threads : {1, 2, 3}) {
        ThreadPool pool(threads);
        const OffsetFloats x(wild_floats(4999, 1), p.x_count(), threads % 4);
        const OffsetFloats dy(random_floats(4999, 2), p.y_count(), (threads + 1) % 4);
        OffsetFloats want(p.y_count(), 0), got(p.y_count(), threads), want_dx(p.x_count(), 0),
            got_dx(p.x_count(), threads);
        std::vector<uint16_t> want_taps(p.y_count()), got_taps(p.y_count());
        const auto same = [&](const OffsetFloats& a, const OffsetFloats& b) {
          return first_difference(a.data(), b.data(), a.size()) == a.size();
        };
        ref::max_pool2d_forward(p, x.data(), want.data(), want_taps.data());
        max_pool2d_forward(p, x.data(), got.data(), got_taps.data(), pool);
        ASSERT_TRUE(same(want, got)) << target;
        ASSERT_EQ(want_taps, got_taps) << target;
        max_pool2d_forward(p, x.data(), got.data(), nullptr, pool);
        ASSERT_TRUE(same(want, got)) << target;
        ref::max_pool2d_backward(p, dy.data(), want_taps.data(), want_dx.data());
        max_pool2d_backward(p, dy.data(), want_taps.data(), got_dx.data(), pool);
        ASSERT_TRUE(same(want_dx, got_dx)) << target;
        ref::avg_pool2d_forward(p, x.data(), want.data());
        avg_pool2d_forward(p, x.data(), got.data(), pool);
        ASSERT_TRUE(same(want, got)) << target;
        ref::avg_pool2d_backward(p, dy.data(), want_dx.data());
        avg_pool2d_backward(p, dy.data(), got_dx.data(), pool);
        ASSERT_TRUE(same(want_dx, got_dx)) << target;
      }
  });
}

}  // namespace
}  // namespace butterfly::kernels
