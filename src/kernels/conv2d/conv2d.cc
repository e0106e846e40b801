// Chooses how: 1x1 is a product, one channel per group goes by channels, the rest gathers taps.
#include "kernels/conv2d/conv2d.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/conv2d/conv2d_cells.h"
#include "kernels/conv2d/conv2d_depthwise.h"
#include "kernels/conv2d/conv2d_gather.h"
#include "kernels/conv2d/conv2d_weights.h"
#include "kernels/gemm/gemm.h"
#include "kernels/norm/norm_backward.h"
#include "kernels/simd/target.h"
#include "tensor/buffer.h"

namespace butterfly::kernels {
namespace {

bool plain_target() { return target_name() == "ref"; }

bool pointwise(const Conv2d& c) {
  return c.kernel_h == 1 && c.kernel_w == 1 && c.groups == 1 && c.pad_top == 0 && c.pad_left == 0 &&
         c.pad_bottom == 0 && c.pad_right == 0;
}
bool every_pixel(const Conv2d& c) { return c.stride_h == 1 && c.stride_w == 1; }
// Whether a pointwise convolution is a product. With strides the pixels have to be put side by side first:
// many outputs pay for that, and rows a multiple of 4 KiB apart would fight for the same lines of the first
// cache.
bool is_product(const Conv2d& c, size_t row_floats, size_t outputs) {
  return pointwise(c) && (every_pixel(c) || outputs > 256 || row_floats % 1024 == 0);
}

bool depthwise(const Conv2d& c) { return c.groups > 1 && c.group_in() == 1 && c.group_out() == 1; }

float* scratch(size_t count) {
  thread_local Buffer buffer;
  if (buffer.size() < count * sizeof(float)) buffer = Buffer::allocate(count * sizeof(float));
  return reinterpret_cast<float*>(buffer.data());
}

// fn(position, pixel of x it reads) for a pointwise convolution with strides, split over the threads.
template <class F>
void each_pixel(const Conv2d& c, ThreadPool& pool, F&& fn) {
  const size_t width = c.out_w(), height = c.out_h();
  pool.parallel_for(c.batch * height, 1, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row)
      for (size_t ox = 0; ox < width; ++ox)
        fn(row * width + ox, (row / height * c.in_h + row % height * c.stride_h) * c.in_w + ox * c.stride_w);
  });
}

// The pixels that a pointwise convolution with strides reads, side by side.
const float* used_pixels(const Conv2d& c, const float* x, ThreadPool& pool) {
  float* to = scratch(c.positions() * c.in_c);
  each_pixel(c, pool, [&](size_t position, size_t pixel) {
    std::memcpy(to + position * c.in_c, x + pixel * c.in_c, c.in_c * sizeof(float));
  });
  return to;
}

// A 1x1 kernel with strides reaches one pixel of each stride_h x stride_w: the others, as floats from it,
// become zeros while the next tile is computed. Empty where images are not made of such cells, or all have
// taps.
std::vector<ptrdiff_t> pixels_without_taps(const Conv2d& c) {
  std::vector<ptrdiff_t> pixels;
  const bool cells = c.in_h % c.stride_h == 0 && c.in_w % c.stride_w == 0;
  if (c.kernel_h * c.kernel_w != 1 || c.pad_top + c.pad_left != 0 || !cells) return pixels;
  for (size_t y = 0; y < c.stride_h; ++y)
    for (size_t x = 0; x < c.stride_w; ++x)
      if (y + x > 0) pixels.push_back(static_cast<ptrdiff_t>((y * c.in_w + x) * c.in_c));
  return pixels;
}

TapSource forward_source(const Conv2d& c, const float* x, size_t group) {
  return {.h = forward_axis(c.out_h(), c.in_h, c.kernel_h, c.stride_h, c.pad_top, c.dilation_h),
          .w = forward_axis(c.out_w(), c.in_w, c.kernel_w, c.stride_w, c.pad_left, c.dilation_w),
          .images = x,
          .image_channels = c.in_c,
          .first_channel = group * c.group_in(),
          .channels = c.group_in()};
}

}  // namespace

void conv2d_forward(const Conv2d& c, const float* x, const float* w, const Epilogue& epilogue, float* y,
                    ThreadPool& pool) {
  if (plain_target()) return ref::conv2d_forward(c, x, w, epilogue, y);
  if (c.y_count() == 0) return;
  if (is_product(c, c.stride_w * c.in_c, c.out_c)) {
    const float* from = every_pixel(c) ? x : used_pixels(c, x, pool);
    return gemm({.m = c.positions(),
                 .n = c.out_c,
                 .k = c.in_c,
                 .a = {from, c.in_c},
                 .b = {w, c.in_c, true},
                 .c = y,
                 .c_stride = c.out_c,
                 .epilogue = epilogue},
                pool);
  }
  if (depthwise(c)) return depthwise_forward(c, x, w, epilogue, y, pool);
  const size_t taps = c.kernel_h * c.kernel_w, gi = c.group_in(), go = c.group_out();
  for (size_t group = 0; group < c.groups; ++group)
    gather_taps({.batch = c.batch,
                 .source = forward_source(c, x, group),
                 .weights = {.data = w + group * go * taps * gi,
                             .outputs = go,
                             .output_stride = taps * gi,
                             .tap_stride = gi,
                             .channel_stride = 1,
                             .kernel_w = c.kernel_w},
                 .target = {.images = y,
                            .height = c.out_h(),
                            .width = c.out_w(),
                            .channels = c.out_c,
                            .first_channel = group * go},
                 .epilogue = epilogue},
                pool);
}

void conv2d_backward_data(const Conv2d& c, const float* dy, const float* w, float* dx, ThreadPool& pool) {
  if (plain_target()) return ref::conv2d_backward_data(c, dy, w, dx);
  if (c.x_count() == 0) return;
  if (is_product(c, c.out_c, c.in_c)) {
    float* to = every_pixel(c) ? dx : scratch(c.positions() * c.in_c);
    gemm({.m = c.positions(),
          .n = c.in_c,
          .k = c.out_c,
          .a = {dy, c.out_c},
          .b = {w, c.in_c},
          .c = to,
          .c_stride = c.in_c},
         pool);
    if (every_pixel(c)) return;
    pool.parallel_for(c.x_count(), 1024,
                      [&](size_t begin, size_t end) { std::fill(dx + begin, dx + end, 0.0f); });
    return each_pixel(c, pool, [&](size_t position, size_t pixel) {
      std::memcpy(dx + pixel * c.in_c, to + position * c.in_c, c.in_c * sizeof(float));
    });
  }
  if (depthwise(c)) return depthwise_backward_data(c, dy, w, dx, pool);
  if (has_cells(c) && conv2d_data_by_cells(c, dy, w, dx, pool)) return;
  const size_t taps = c.kernel_h * c.kernel_w, gi = c.group_in(), go = c.group_out();
  const std::vector<ptrdiff_t> clear = pixels_without_taps(c);
  const size_t rows = clear.empty() ? c.stride_h : 1, columns = clear.empty() ? c.stride_w : 1;
  for (size_t group = 0; group < c.groups; ++group)
    for (size_t py = 0; py < rows; ++py)
      for (size_t px = 0; px < columns; ++px)
        gather_taps({.batch = c.batch,
                     .source = {.h = data_axis(py, c.in_h, c.out_h(), c.kernel_h, c.stride_h, c.pad_top,
                                               c.dilation_h),
                                .w = data_axis(px, c.in_w, c.out_w(), c.kernel_w, c.stride_w, c.pad_left,
                                               c.dilation_w),
                                .images = dy,
                                .image_channels = c.out_c,
                                .first_channel = group * go,
                                .channels = go},
                     .weights = {.data = w + group * go * taps * gi,
                                 .outputs = gi,
                                 .output_stride = 1,
                                 .tap_stride = gi,
                                 .channel_stride = taps * gi,
                                 .kernel_w = c.kernel_w},
                     .target = {.images = dx,
                                .height = c.in_h,
                                .width = c.in_w,
                                .channels = c.in_c,
                                .first_channel = group * gi,
                                .row0 = py,
                                .row_step = c.stride_h,
                                .column0 = px,
                                .column_step = c.stride_w,
                                .clear = clear}},
                    pool);
}

void conv2d_backward_weights(const Conv2d& c, const float* x, const float* dy, bool accumulate, float* dw,
                             float* dbias, ThreadPool& pool) {
  if (plain_target()) return ref::conv2d_backward_weights(c, x, dy, accumulate, dw, dbias);
  if (dbias != nullptr) column_sums(dy, c.positions(), c.out_c, c.out_c, accumulate, dbias, pool);
  if (c.positions() == 0 && !accumulate) std::fill_n(dw, c.w_count(), 0.0f);
  if (c.positions() == 0) return;
  if (depthwise(c)) return depthwise_backward_weights(c, x, dy, accumulate, dw, pool);
  const size_t size = c.w_count() / c.groups;
  for (size_t group = 0; group < c.groups; ++group)
    sum_taps({.batch = c.batch,
              .source = forward_source(c, x, group),
              .dy = dy + group * c.group_out(),
              .dy_stride = c.out_c,
              .outputs = c.group_out(),
              .dw = dw + group * size,
              .accumulate = accumulate},
             pool);
}

}  // namespace butterfly::kernels
