// Max and average pooling of NHWC images, forward and backward.
//
// Exactly: max walks the taps inside the image in (ky, kx) order and takes each that is larger than what it
// has, or NaN; the first one stands until then. Average: acc = acc + x over the taps inside the image in
// order from 0, then acc / count. Backward gathers: dx = sum over the windows that hold the position, in
// (oy, ox) order, from 0.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"

namespace butterfly::kernels {

// Sizes of one pooling, and what follows from them.
struct Pool2d {
  size_t batch = 1, in_h = 0, in_w = 0, channels = 0;
  size_t kernel_h = 1, kernel_w = 1;
  size_t stride_h = 1, stride_w = 1;
  size_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;  // each smaller than the kernel
  bool count_padding = false;  // average: divide by the whole window, padding included

  size_t out_h() const { return out_size(in_h + pad_top + pad_bottom, kernel_h, stride_h); }
  size_t out_w() const { return out_size(in_w + pad_left + pad_right, kernel_w, stride_w); }
  size_t positions() const { return batch * out_h() * out_w(); }
  size_t x_count() const { return batch * in_h * in_w * channels; }
  size_t y_count() const { return positions() * channels; }

 private:
  static size_t out_size(size_t padded, size_t kernel, size_t stride) {
    return padded < kernel ? 0 : (padded - kernel) / stride + 1;
  }
};

// y and taps are [batch, out_h, out_w, channels]; taps[i] = ky * kernel_w + kx of the value kept, what the
// backward pass needs (null: not wanted). Windows of up to 65536 taps.
void max_pool2d_forward(const Pool2d& pool2d, const float* x, float* y, uint16_t* taps, ThreadPool& pool);
// Overwrites dx.
void max_pool2d_backward(const Pool2d& pool2d, const float* dy, const uint16_t* taps, float* dx,
                         ThreadPool& pool);

void avg_pool2d_forward(const Pool2d& pool2d, const float* x, float* y, ThreadPool& pool);
// Overwrites dx. Each window gives dy / count to its taps.
void avg_pool2d_backward(const Pool2d& pool2d, const float* dy, float* dx, ThreadPool& pool);

namespace ref {
void max_pool2d_forward(const Pool2d& pool2d, const float* x, float* y, uint16_t* taps);
void max_pool2d_backward(const Pool2d& pool2d, const float* dy, const uint16_t* taps, float* dx);
void avg_pool2d_forward(const Pool2d& pool2d, const float* x, float* y);
void avg_pool2d_backward(const Pool2d& pool2d, const float* dy, float* dx);
}  // namespace ref

}  // namespace butterfly::kernels
