#include "kernels/conv2d/conv2d.h"

#include <algorithm>
#include <cmath>

#include "kernels/ref/epilogue.h"
#include "kernels/simd/position_block.h"

namespace butterfly::kernels::ref {
namespace {

// The value of an NHWC image at a place that may lie outside of it: zero there.
float pixel(const float* image, size_t height, size_t width, size_t channels, ptrdiff_t y, ptrdiff_t x,
            size_t channel) {
  if (y < 0 || x < 0 || y >= static_cast<ptrdiff_t>(height) || x >= static_cast<ptrdiff_t>(width)) return 0;
  return image[(static_cast<size_t>(y) * width + static_cast<size_t>(x)) * channels + channel];
}

ptrdiff_t place(size_t out, size_t stride, size_t tap, size_t dilation, size_t pad) {
  return static_cast<ptrdiff_t>(out * stride + tap * dilation) - static_cast<ptrdiff_t>(pad);
}

size_t weight_at(const Conv2d& c, size_t co, size_t ky, size_t kx, size_t ci) {
  return ((co * c.kernel_h + ky) * c.kernel_w + kx) * c.group_in() + ci;
}

}  // namespace

void conv2d_forward(const Conv2d& c, const float* x, const float* w, const Epilogue& epilogue, float* y) {
  const size_t width = c.out_w(), area = c.out_h() * width;
  for (size_t position = 0; position < c.positions(); ++position) {
    const float* image = x + position / area * c.in_h * c.in_w * c.in_c;
    const size_t oy = position % area / width, ox = position % width;
    for (size_t co = 0; co < c.out_c; ++co) {
      const size_t first = co / c.group_out() * c.group_in();
      float acc = 0;
      for (size_t ky = 0; ky < c.kernel_h; ++ky)
        for (size_t kx = 0; kx < c.kernel_w; ++kx)
          for (size_t ci = 0; ci < c.group_in(); ++ci)
            acc = std::fma(
                pixel(image, c.in_h, c.in_w, c.in_c, place(oy, c.stride_h, ky, c.dilation_h, c.pad_top),
                      place(ox, c.stride_w, kx, c.dilation_w, c.pad_left), first + ci),
                w[weight_at(c, co, ky, kx, ci)], acc);
      finish(epilogue, acc, co, position * c.out_c + co, y);
    }
  }
}

void conv2d_backward_data(const Conv2d& c, const float* dy, const float* w, float* dx) {
  for (size_t place = 0; place < c.batch * c.in_h * c.in_w; ++place) {
    const float* image = dy + place / (c.in_h * c.in_w) * c.out_h() * c.out_w() * c.out_c;
    const size_t iy = place / c.in_w % c.in_h, ix = place % c.in_w;
    for (size_t ci = 0; ci < c.in_c; ++ci) {
      const size_t group = ci / c.group_in();
      float acc = 0;
      for (size_t ky = 0; ky < c.kernel_h; ++ky) {
        const auto y = static_cast<ptrdiff_t>(iy + c.pad_top) - static_cast<ptrdiff_t>(ky * c.dilation_h);
        const auto stride_h = static_cast<ptrdiff_t>(c.stride_h),
                   stride_w = static_cast<ptrdiff_t>(c.stride_w);
        if (y % stride_h != 0) continue;
        for (size_t kx = 0; kx < c.kernel_w; ++kx) {
          const auto x = static_cast<ptrdiff_t>(ix + c.pad_left) - static_cast<ptrdiff_t>(kx * c.dilation_w);
          if (x % stride_w != 0) continue;
          for (size_t co = group * c.group_out(); co < (group + 1) * c.group_out(); ++co)
            acc = std::fma(pixel(image, c.out_h(), c.out_w(), c.out_c, y / stride_h, x / stride_w, co),
                           w[weight_at(c, co, ky, kx, ci % c.group_in())], acc);
        }
      }
      dx[place * c.in_c + ci] = acc;
    }
  }
}

void conv2d_backward_weights(const Conv2d& c, const float* x, const float* dy, bool accumulate, float* dw,
                             float* dbias) {
  if (!accumulate) std::fill_n(dw, c.w_count(), 0.0f);
  if (!accumulate && dbias != nullptr) std::fill_n(dbias, c.out_c, 0.0f);
  const size_t width = c.out_w(), area = c.out_h() * width;
  for (size_t begin = 0; begin < c.positions(); begin += kPositionBlock) {
    const size_t end = std::min(c.positions(), begin + kPositionBlock);
    for (size_t co = 0; co < c.out_c; ++co) {
      const size_t first = co / c.group_out() * c.group_in();
      for (size_t ky = 0; ky < c.kernel_h; ++ky)
        for (size_t kx = 0; kx < c.kernel_w; ++kx)
          for (size_t ci = 0; ci < c.group_in(); ++ci) {
            float acc = 0;
            for (size_t position = begin; position < end; ++position)
              acc = std::fma(
                  dy[position * c.out_c + co],
                  pixel(x + position / area * c.in_h * c.in_w * c.in_c, c.in_h, c.in_w, c.in_c,
                        place(position % area / width, c.stride_h, ky, c.dilation_h, c.pad_top),
                        place(position % width, c.stride_w, kx, c.dilation_w, c.pad_left), first + ci),
                  acc);
            dw[weight_at(c, co, ky, kx, ci)] += acc;
          }
      if (dbias == nullptr) continue;
      float acc = 0;
      for (size_t position = begin; position < end; ++position) acc += dy[position * c.out_c + co];
      dbias[co] += acc;
    }
  }
}

}  // namespace butterfly::kernels::ref
