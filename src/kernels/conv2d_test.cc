// Convolutions: hand values and finite differences for the plain loops, then every target, shape and thread
// count against them, bit for bit.
#include "kernels/conv2d.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/shape_sweep.h"
#include "kernels/testing/gradient_check.h"

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
};

TEST(Conv2d, GradientsAreThoseOfTheForwardPass) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Conv2d& conv = c.conv;
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

void expect_plain(const Case& c, size_t threads, size_t offset) {
  const Conv2d& conv = c.conv;
  const std::string where = std::string(c.name) + " " + target_name() + " threads " + std::to_string(threads);
  ThreadPool pool(threads);
  const OffsetFloats x(random_floats(4099, 1), conv.x_count(), offset);
  const OffsetFloats w(random_floats(4093, 2), conv.w_count(), (offset + 1) % 4);
  const OffsetFloats dy(random_floats(4091, 3), conv.y_count(), (offset + 2) % 4);
  const OffsetFloats bias(random_floats(conv.out_c + 1, 4), conv.out_c, offset);
  for (int variant = 0; variant < 3; ++variant) {
    OffsetFloats want(conv.y_count(), 0), got(conv.y_count(), offset), want_before(conv.y_count(), 0),
        got_before(conv.y_count(), 1);
    const float* b = variant == 0 ? nullptr : bias.data();
    const auto activation = static_cast<FusedActivation>(variant);
    ref::conv2d_forward(conv, x.data(), w.data(),
                        {b, activation, variant == 2 ? want_before.data() : nullptr}, want.data());
    conv2d_forward(conv, x.data(), w.data(), {b, activation, variant == 2 ? got_before.data() : nullptr},
                   got.data(), pool);
    ASSERT_EQ(first_difference(want.data(), got.data(), want.size()), want.size()) << where;
    ASSERT_EQ(first_difference(want_before.data(), got_before.data(), want.size()), want.size()) << where;
  }
  OffsetFloats want_dx(conv.x_count(), 0), got_dx(conv.x_count(), offset);
  std::fill_n(got_dx.data(), got_dx.size(), 99.0f);
  ref::conv2d_backward_data(conv, dy.data(), w.data(), want_dx.data());
  conv2d_backward_data(conv, dy.data(), w.data(), got_dx.data(), pool);
  ASSERT_EQ(first_difference(want_dx.data(), got_dx.data(), want_dx.size()), want_dx.size()) << where;
  for (bool accumulate : {false, true}) {
    OffsetFloats want_dw(random_floats(997, 5), conv.w_count(), 0), got_dw(want_dw);
    OffsetFloats want_db(random_floats(997, 6), conv.out_c, 0), got_db(want_db);
    ref::conv2d_backward_weights(conv, x.data(), dy.data(), accumulate, want_dw.data(), want_db.data());
    conv2d_backward_weights(conv, x.data(), dy.data(), accumulate, got_dw.data(), got_db.data(), pool);
    ASSERT_EQ(first_difference(want_dw.data(), got_dw.data(), want_dw.size()), want_dw.size()) << where;
    ASSERT_EQ(first_difference(want_db.data(), got_db.data(), want_db.size()), want_db.size()) << where;
    conv2d_backward_weights(conv, x.data(), dy.data(), accumulate, got_dw.data(), nullptr, pool);
  }
}

TEST(Conv2d, EveryTargetIsThePlainLoop) {
  for_each_target([&](const std::string&) {
    size_t offset = 0;
    for (const Case& c : kCases)
      for (size_t threads : {1, 2, 3}) expect_plain(c, threads, offset++ % 4);
  });
}

}  // namespace
}  // namespace butterfly::kernels
