// Two-dimensional convolution for training: forward, gradient to the data, gradient to the weights.
//
// Layouts: images NHWC, x [batch, in_h, in_w, in_c] and y [batch, out_h, out_w, out_c]; weights OHWI,
// w [out_c, kernel_h, kernel_w, in_c / groups]. Channels are the vector lanes, neighbouring taps of a row are
// neighbours in memory, and a 1x1 convolution is a plain product. (Files with OIHW weights are permuted when
// they are read.)
//
// What each result is, exactly; x is zero outside the image and these zeros take part:
//   forward   acc = 0; acc = fma(x[..], w[..], acc) for (ky, kx, ci) in order; then the epilogue
//   data      acc = 0; acc = fma(dy[..], w[..], acc) for (ky, kx, co) in order over the taps that the stride
//             allows for this input position; dy is zero outside its image and these zeros take part
//   weights   positions (image, oy, ox) in order are cut into blocks of kPositionBlock (position_block.h).
//   Each is a chain
//             acc = fma(dy[..], x[..], acc) from 0, then dw = dw + acc, block by block.
//   bias      the same blocks: acc = acc + dy from 0, then dbias = dbias + acc
#pragma once
#include <cstddef>

#include "base/thread_pool.h"
#include "kernels/gemm/epilogue.h"

namespace butterfly::kernels {

// Sizes of one convolution, and what follows from them. Groups divide both numbers of channels.
struct Conv2d {
  size_t batch = 1, in_h = 0, in_w = 0, in_c = 0, out_c = 0;
  size_t kernel_h = 1, kernel_w = 1;
  size_t stride_h = 1, stride_w = 1;
  size_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  size_t dilation_h = 1, dilation_w = 1;
  size_t groups = 1;

  // Rows of the padded image the kernel covers, minus one.
  size_t reach_h() const { return dilation_h * (kernel_h - 1); }
  size_t reach_w() const { return dilation_w * (kernel_w - 1); }
  size_t out_h() const { return out_size(in_h + pad_top + pad_bottom, reach_h(), stride_h); }
  size_t out_w() const { return out_size(in_w + pad_left + pad_right, reach_w(), stride_w); }
  size_t group_in() const { return in_c / groups; }
  size_t group_out() const { return out_c / groups; }
  size_t positions() const { return batch * out_h() * out_w(); }
  size_t x_count() const { return batch * in_h * in_w * in_c; }
  size_t y_count() const { return positions() * out_c; }
  size_t w_count() const { return out_c * kernel_h * kernel_w * group_in(); }
  double flops() const { return 2.0 * static_cast<double>(positions()) * static_cast<double>(w_count()); }

 private:
  static size_t out_size(size_t padded, size_t reach, size_t stride) {
    return padded <= reach ? 0 : (padded - reach - 1) / stride + 1;
  }
};

// `epilogue.before`, where given, is [batch, out_h, out_w, out_c] too.
void conv2d_forward(const Conv2d& conv, const float* x, const float* w, const Epilogue& epilogue, float* y,
                    ThreadPool& pool);

// Overwrites dx; positions that no tap reaches get zeros.
void conv2d_backward_data(const Conv2d& conv, const float* dy, const float* w, float* dx, ThreadPool& pool);

// dw [out_c, kernel_h, kernel_w, in_c / groups] and dbias [out_c] (or null) start from 0, or from what they
// hold if `accumulate`.
void conv2d_backward_weights(const Conv2d& conv, const float* x, const float* dy, bool accumulate, float* dw,
                             float* dbias, ThreadPool& pool);

namespace ref {
void conv2d_forward(const Conv2d& conv, const float* x, const float* w, const Epilogue& epilogue, float* y);
void conv2d_backward_data(const Conv2d& conv, const float* dy, const float* w, float* dx);
void conv2d_backward_weights(const Conv2d& conv, const float* x, const float* dy, bool accumulate, float* dw,
                             float* dbias);
}  // namespace ref

}  // namespace butterfly::kernels
