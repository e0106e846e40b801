// Convolutions: hand values and finite differences for the plain loops, then every target, shape and thread
// count against them, bit for bit.
#include "kernels/conv2d/conv2d.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/testing/gradient_check.h"
#include "kernels/testing/shape_sweep.h"

namespace butterfly::kernels {
namespace {

using Floats = std::vector<float>;

TEST(Conv2d, HandValues) {
  // A 3x3 image, one channel, a 2x2 kernel with padding on the top and left.
  const Conv2d conv{
      .in_h = 3, .in_w = 3, .in_c = 1, .out_c = 1, .kernel_h = 2, .kernel_w = 2, .pad_top = 1, .pad_left = 1};
  ASSERT_EQ(conv.out_h(), 3u);
  const Floats x = {1, 2, 3, 4, 5, 6, 7, 8, 9}, w = {1, 10, 100, 1000};
  Floats y(9), dx(9), dw(4);
  const float bias = 0.5f;
  ref::conv2d_forward(conv, x.data(), w.data(), {&bias}, y.data());
  EXPECT_EQ(y, (Floats{1000.5f, 2100.5f, 3200.5f, 4010.5f, 5421.5f, 6532.5f, 7040.5f, 8754.5f, 9865.5f}));
  const Floats dy = {1, 0, 0, 0, 2, 0, 0, 0, 0};
  ref::conv2d_backward_data(conv, dy.data(), w.data(), dx.data());
  EXPECT_EQ(dx, (Floats{1002, 20, 0, 200, 2000, 0, 0, 0, 0}));
  float dbias = 7;
  ref::conv2d_backward_weights(conv, x.data(), dy.data(), false, dw.data(), &dbias);
  EXPECT_EQ(dw, (Floats{2, 4, 8, 11}));
  EXPECT_EQ(dbias, 3);
  ref::conv2d_backward_weights(conv, x.data(), dy.data(), true, dw.data(), &dbias);
  EXPECT_EQ(dw, (Floats{4, 8, 16, 22}));
  EXPECT_EQ(dbias, 6);
}

TEST(Conv2d, OutputSizes) {
  EXPECT_EQ((Conv2d{.in_h = 224,
                    .in_w = 224,
                    .kernel_h = 7,
                    .kernel_w = 7,
                    .stride_h = 2,
                    .stride_w = 2,
                    .pad_top = 3,
                    .pad_left = 3,
                    .pad_bottom = 3,
                    .pad_right = 3})
                .out_h(),
            112u);
  const Conv2d small{.in_h = 2, .in_w = 2, .kernel_h = 3, .kernel_w = 2};
  EXPECT_EQ(small.out_h(), 0u);
  EXPECT_EQ(small.out_w(), 1u);
}

struct Case {
  const char* name;
  Conv2d conv;
};

// Every feature at least once, sizes around the tiles.
const Case kCases[] = {
    {"plain 3x3",
     {.batch = 2,
      .in_h = 9,
      .in_w = 17,
      .in_c = 5,
      .out_c = 19,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_top = 1,
      .pad_left = 1,
      .pad_bottom = 1,
      .pad_right = 1}},
    {"pointwise", {.batch = 3, .in_h = 5, .in_w = 7, .in_c = 33, .out_c = 40}},
    {"pointwise stride",
     {.batch = 2, .in_h = 7, .in_w = 9, .in_c = 8, .out_c = 35, .stride_h = 2, .stride_w = 2}},
    {"first layer",
     {.batch = 2,
      .in_h = 23,
      .in_w = 30,
      .in_c = 3,
      .out_c = 32,
      .kernel_h = 7,
      .kernel_w = 7,
      .stride_h = 2,
      .stride_w = 2,
      .pad_top = 3,
      .pad_left = 3,
      .pad_bottom = 3,
      .pad_right = 3}},
    {"first layer, whole cells",
     {.batch = 2,
      .in_h = 24,
      .in_w = 30,
      .in_c = 3,
      .out_c = 32,
      .kernel_h = 7,
      .kernel_w = 7,
      .stride_h = 2,
      .stride_w = 2,
      .pad_top = 3,
      .pad_left = 3,
      .pad_bottom = 3,
      .pad_right = 3}},
    {"unequal cells",
     {.batch = 1,
      .in_h = 9,
      .in_w = 8,
      .in_c = 4,
      .out_c = 6,
      .kernel_h = 4,
      .kernel_w = 3,
      .stride_h = 3,
      .stride_w = 2,
      .pad_top = 1,
      .pad_left = 2}},
    {"pointwise, whole cells",
     {.batch = 2, .in_h = 6, .in_w = 8, .in_c = 37, .out_c = 11, .stride_h = 3, .stride_w = 2}},
    {"grey", {.batch = 3, .in_h = 28, .in_w = 28, .in_c = 1, .out_c = 32, .kernel_h = 3, .kernel_w = 3}},
    {"dilated",
     {.batch = 1,
      .in_h = 14,
      .in_w = 15,
      .in_c = 6,
      .out_c = 17,
      .kernel_h = 3,
      .kernel_w = 2,
      .pad_top = 2,
      .pad_left = 3,
      .pad_bottom = 1,
      .dilation_h = 3,
      .dilation_w = 4}},
    {"stride and dilation",
     {.batch = 2,
      .in_h = 17,
      .in_w = 20,
      .in_c = 4,
      .out_c = 9,
      .kernel_h = 3,
      .kernel_w = 4,
      .stride_h = 2,
      .stride_w = 3,
      .pad_top = 1,
      .pad_left = 4,
      .pad_bottom = 2,
      .pad_right = 1,
      .dilation_h = 2,
      .dilation_w = 3}},
    {"groups",
     {.batch = 2,
      .in_h = 8,
      .in_w = 6,
      .in_c = 12,
      .out_c = 18,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_top = 1,
      .pad_left = 1,
      .pad_bottom = 1,
      .pad_right = 1,
      .groups = 3}},
    {"depthwise",
     {.batch = 2,
      .in_h = 15,
      .in_w = 29,
      .in_c = 37,
      .out_c = 37,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_top = 1,
      .pad_left = 1,
      .pad_bottom = 1,
      .pad_right = 1,
      .groups = 37}},
    {"depthwise stride",
     {.batch = 1,
      .in_h = 13,
      .in_w = 12,
      .in_c = 16,
      .out_c = 16,
      .kernel_h = 5,
      .kernel_w = 5,
      .stride_h = 2,
      .stride_w = 2,
      .pad_top = 2,
      .pad_left = 2,
      .pad_bottom = 2,
      .pad_right = 2,
      .groups = 16}},
    {"depth multiplier",
     {.batch = 1, .in_h = 6, .in_w = 5, .in_c = 10, .out_c = 20, .kernel_h = 3, .kernel_w = 3, .groups = 10}},
    {"stride beyond kernel",
     {.batch = 1,
      .in_h = 11,
      .in_w = 11,
      .in_c = 3,
      .out_c = 5,
      .kernel_h = 2,
      .kernel_w = 2,
      .stride_h = 3,
      .stride_w = 4}},
    {"sevens",
     {.batch = 5,
      .in_h = 7,
      .in_w = 7,
      .in_c = 16,
      .out_c = 48,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_top = 1,
      .pad_left = 1,
      .pad_bottom = 1,
      .pad_right = 1}},
    {"one column",
     {.batch = 2,
      .in_h = 30,
      .in_w = 1,
      .in_c = 7,
      .out_c = 33,
      .kernel_h = 5,
      .kernel_w = 1,
      .pad_top = 4,
      .pad_bottom = 4}},
    {"no output", {.batch = 2, .in_h = 2, .in_w = 2, .in_c = 3, .out_c = 4, .kernel_h = 3, .kernel_w = 3}},
    {"much padding",
     {.batch = 1,
      .in_h = 2,
      .in_w = 3,
      .in_c = 4,
      .out_c = 5,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_top = 5,
      .pad_left = 4,
      .pad_bottom = 6,
      .pad_right = 7}},
    {"wide",
     {.batch = 1,
      .in_h = 4,
      .in_w = 61,
      .in_c = 20,
      .out_c = 70,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_left = 1,
      .pad_right = 1}},
    {"whole panels of channels",
     {.batch = 11,
      .in_h = 5,
      .in_w = 6,
      .in_c = 64,
      .out_c = 45,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_top = 1,
      .pad_left = 1,
      .pad_bottom = 1,
      .pad_right = 1}},
    {"few pixels, many weights",
     {.batch = 1,
      .in_h = 2,
      .in_w = 2,
      .in_c = 250,
      .out_c = 500,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_top = 1,
      .pad_left = 1,
      .pad_bottom = 1,
      .pad_right = 1}},
};

TEST(Conv2d, GradientsAreThoseOfTheForwardPass) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Conv2d& conv = c.conv;
    if (conv.w_count() > 1000000) continue;  // no new loops, much time
    Floats x = random_floats(conv.x_count(), 1), w = random_floats(conv.w_count(), 2);
    Floats bias = random_floats(conv.out_c, 3);
    const Floats dy = random_floats(conv.y_count(), 4);
    Floats dx(x.size()), dw(w.size()), dbias(bias.size());
    ref::conv2d_backward_data(conv, dy.data(), w.data(), dx.data());
    ref::conv2d_backward_weights(conv, x.data(), dy.data(), false, dw.data(), dbias.data());
    const auto run = [&] {
      Floats y(conv.y_count());
      ref::conv2d_forward(conv, x.data(), w.data(), {bias.data()}, y.data());
      return y;
    };
    // The function is linear in each: large steps are exact, and drown the rounding.
    expect_gradient(x, dx, dy, 4.0f, 2e-3, x.size() / 9 + 1, run);
    expect_gradient(w, dw, dy, 4.0f, 2e-3, w.size() / 9 + 1, run);
    expect_gradient(bias, dbias, dy, 4.0f, 2e-3, bias.size() / 3 + 1, run);
  }
}

// What the plain loops give, once for all targets.
struct Wanted {
  OffsetFloats x, w, dy, bias;
  std::vector<OffsetFloats> y, before;  // by variant of the epilogue
  OffsetFloats dx;
  std::vector<OffsetFloats> dw, dbias;  // fresh, accumulated

  static constexpr int kVariants = 3;
  static OffsetFloats start_of(size_t count) { return OffsetFloats(random_floats(997, 5), count, 0); }
  // Nothing, bias and relu, bias and gelu with the values before it.
  Epilogue epilogue(int variant, float* into) const {
    return {variant == 0 ? nullptr : bias.data(), static_cast<FusedActivation>(variant),
            variant == 2 ? into : nullptr};
  }

  Wanted(const Conv2d& conv, size_t offset)
      : Wanted(conv, offset, random_floats(4099, 1), random_floats(4093, 2), random_floats(4091, 3)) {}
  // With these values, repeated as often as needed.
  Wanted(const Conv2d& conv, size_t offset, const Floats& for_x, const Floats& for_w, const Floats& for_dy)
      : x(for_x, conv.x_count(), offset),
        w(for_w, conv.w_count(), (offset + 1) % 4),
        dy(for_dy, conv.y_count(), (offset + 2) % 4),
        bias(random_floats(conv.out_c + 1, 4), conv.out_c, offset),
        dx(conv.x_count(), 0) {
    for (int variant = 0; variant < kVariants; ++variant) {
      y.emplace_back(conv.y_count(), 0);
      before.emplace_back(conv.y_count(), 0);
      ref::conv2d_forward(conv, x.data(), w.data(), epilogue(variant, before.back().data()), y.back().data());
    }
    ref::conv2d_backward_data(conv, dy.data(), w.data(), dx.data());
    for (bool accumulate : {false, true}) {
      dw.push_back(start_of(conv.w_count()));
      dbias.push_back(start_of(conv.out_c));
      ref::conv2d_backward_weights(conv, x.data(), dy.data(), accumulate, dw.back().data(),
                                   dbias.back().data());
    }
  }
};

bool same(const OffsetFloats& a, const OffsetFloats& b) {
  return a.size() == b.size() && first_difference(a.data(), b.data(), a.size()) == a.size();
}

void expect_plain(const Conv2d& conv, const Wanted& want, size_t threads, const std::string& where) {
  ThreadPool pool(threads);
  for (int variant = 0; variant < Wanted::kVariants; ++variant) {
    OffsetFloats y(conv.y_count(), threads), before(conv.y_count(), 1);
    conv2d_forward(conv, want.x.data(), want.w.data(), want.epilogue(variant, before.data()), y.data(), pool);
    ASSERT_TRUE(same(want.y[static_cast<size_t>(variant)], y)) << where << " epilogue " << variant;
    ASSERT_TRUE(same(want.before[static_cast<size_t>(variant)], before)) << where;
  }
  OffsetFloats dx(conv.x_count(), threads);
  std::fill_n(dx.data(), dx.size(), 99.0f);
  conv2d_backward_data(conv, want.dy.data(), want.w.data(), dx.data(), pool);
  ASSERT_TRUE(same(want.dx, dx)) << where << " data";
  for (bool accumulate : {false, true}) {
    OffsetFloats dw = Wanted::start_of(conv.w_count()), dbias = Wanted::start_of(conv.out_c), dw2 = dw;
    conv2d_backward_weights(conv, want.x.data(), want.dy.data(), accumulate, dw.data(), dbias.data(), pool);
    ASSERT_TRUE(same(want.dw[accumulate ? 1 : 0], dw)) << where << " weights";
    ASSERT_TRUE(same(want.dbias[accumulate ? 1 : 0], dbias)) << where << " bias";
    conv2d_backward_weights(conv, want.x.data(), want.dy.data(), accumulate, dw2.data(), nullptr, pool);
    ASSERT_TRUE(same(dw, dw2)) << where << " without bias";
  }
}

// Products of these underflow to zeros of both signs: whether a sum ends as -0 depends on the zeros around
// the image.
Floats tiny_floats(size_t count, uint64_t stream) {
  Floats out(count);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t r = random_u64(13, stream, i);
    out[i] = r % 7 == 0 ? 0.0f : (r >> 8) % 8 == 0 ? 1e-30f : -1e-30f;
    if (stream == 2) out[i] = std::fabs(out[i]);
  }
  return out;
}

size_t count_minus_zeros(const OffsetFloats& values) {
  size_t count = 0;
  for (size_t i = 0; i < values.size(); ++i) count += values.data()[i] == 0 && std::signbit(values.data()[i]);
  return count;
}

TEST(Conv2d, ZerosAroundTheImageTakePart) {
  for (const char* name : {"plain 3x3", "first layer", "first layer, whole cells", "stride and dilation",
                           "groups", "sevens", "much padding", "whole panels of channels"}) {
    const Conv2d& conv = std::find_if(std::begin(kCases), std::end(kCases), [&](const Case& c) {
                           return std::string(c.name) == name;
                         })->conv;
    const Wanted tiny(conv, 1, tiny_floats(4099, 1), tiny_floats(4093, 2), tiny_floats(4091, 3));
    const size_t minus = count_minus_zeros(tiny.y[0]);
    EXPECT_GT(minus, 0u) << name;
    EXPECT_LT(minus, tiny.y[0].size()) << name;
    // One weight in a hundred is no number or infinite: outputs at the border are NaN for their zeros' sake.
    Floats holes = random_floats(4093, 2);
    for (size_t i = 0; i < holes.size(); i += 101) holes[i] = i % 2 == 0 ? INFINITY : NAN;
    const Wanted wild(conv, 2, wild_floats(4099, 1), holes, wild_floats(4091, 3));
    for_each_target([&](const std::string& target) {
      if (target == "ref") return;
      expect_plain(conv, tiny, 2, std::string(name) + " tiny " + target);
      expect_plain(conv, wild, 2, std::string(name) + " wild " + target);
    });
  }
}

TEST(Conv2d, EveryTargetIsThePlainLoop) {
  size_t offset = 0;
  for (const Case& c : kCases) {
    const Wanted want(c.conv, offset++ % 4);
    for_each_target([&](const std::string& target) {
      if (target == "ref") return;
      for (size_t threads : {1, 2, 3})
        expect_plain(c.conv, want, threads,
                     std::string(c.name) + " " + target + " threads " + std::to_string(threads));
    });
  }
}

}  // namespace
}  // namespace butterfly::kernels
