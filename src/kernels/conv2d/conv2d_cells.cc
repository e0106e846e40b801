// A cell is stride_h x stride_w pixels of dx with all their channels. Pixels of a cell gather from the same
// pixels of dy, each with some of the taps; as one output of many channels a cell fills the lanes of a tile
// that three channels would leave empty. Taps which a pixel does not have get the weight 0.
//
// Such a step is fma(dy, 0, acc). It leaves an acc alone that is not zero, if dy is finite; an acc of -0 may
// become +0. So results that are finite and not zero have the bits of the sums without these steps. If any
// other appears, the caller has to take the long way.
#include "kernels/conv2d/conv2d_cells.h"

#include <algorithm>
#include <vector>

#include "kernels/conv2d/conv2d_gather.h"

namespace butterfly::kernels {
namespace {

constexpr size_t kLanes = 32;  // of the widest tile

// The taps of all pixels of a cell along one axis, from the last pixel of dy to the first: the order of each
// one's sum.
struct CellAxis {
  TapAxis axis;
  size_t stride, pad, kernel;

  CellAxis(size_t inputs, size_t source, size_t kernel_size, size_t step, size_t padding)
      : stride(step), pad(padding), kernel(kernel_size) {
    axis = {.outputs = inputs / stride, .step = 1, .source = source, .taps = {}, .kernel = {}};
    const auto high = static_cast<ptrdiff_t>((stride - 1 + pad) / stride);
    for (ptrdiff_t offset = high; tap_of(0, offset) < static_cast<ptrdiff_t>(kernel); --offset) {
      axis.kernel.push_back(axis.taps.size());
      axis.taps.push_back(offset);
    }
  }
  // Which tap of the kernel pixel `phase` of a cell has at this offset; it may have none: outside [0,
  // kernel).
  ptrdiff_t tap_of(size_t phase, ptrdiff_t offset) const {
    return static_cast<ptrdiff_t>(phase + pad) - offset * static_cast<ptrdiff_t>(stride);
  }
  bool has(ptrdiff_t tap) const { return tap >= 0 && tap < static_cast<ptrdiff_t>(kernel); }
};

// w as [taps of h][taps of w][out_c][phase h, phase w, in_c].
std::vector<float> cell_weights(const Conv2d& c, const CellAxis& h, const CellAxis& w_axis, const float* w) {
  const size_t lanes = c.stride_h * c.stride_w * c.in_c;
  std::vector<float> cells(h.axis.taps.size() * w_axis.axis.taps.size() * c.out_c * lanes);
  float* to = cells.data();
  for (ptrdiff_t y : h.axis.taps)
    for (ptrdiff_t x : w_axis.axis.taps)
      for (size_t co = 0; co < c.out_c; ++co)
        for (size_t py = 0; py < c.stride_h; ++py)
          for (size_t px = 0; px < c.stride_w; ++px, to += c.in_c) {
            const ptrdiff_t ky = h.tap_of(py, y), kx = w_axis.tap_of(px, x);
            if (!h.has(ky) || !w_axis.has(kx)) continue;
            const size_t tap = static_cast<size_t>(ky) * c.kernel_w + static_cast<size_t>(kx);
            std::copy_n(w + (co * c.kernel_h * c.kernel_w + tap) * c.in_c, c.in_c, to);
          }
  return cells;
}

}  // namespace

bool has_cells(const Conv2d& c) {
  return c.groups == 1 && c.stride_h * c.stride_w > 1 && c.stride_h * c.stride_w * c.in_c <= kLanes &&
         c.dilation_h == 1 && c.dilation_w == 1 && c.kernel_h >= c.stride_h && c.kernel_w >= c.stride_w &&
         c.in_h % c.stride_h == 0 && c.in_w % c.stride_w == 0 && c.out_c > 0;
}

bool conv2d_data_by_cells(const Conv2d& c, const float* dy, const float* w, float* dx, ThreadPool& pool) {
  const CellAxis h(c.in_h, c.out_h(), c.kernel_h, c.stride_h, c.pad_top);
  const CellAxis w_axis(c.in_w, c.out_w(), c.kernel_w, c.stride_w, c.pad_left);
  const std::vector<float> weights = cell_weights(c, h, w_axis, w);
  const size_t lanes = c.stride_h * c.stride_w * c.in_c;
  std::atomic<bool> doubt = false;
  gather_taps({.batch = c.batch,
               .source = {.h = h.axis,
                          .w = w_axis.axis,
                          .images = dy,
                          .image_channels = c.out_c,
                          .first_channel = 0,
                          .channels = c.out_c},
               .weights = {.data = weights.data(),
                           .outputs = lanes,
                           .output_stride = 1,
                           .tap_stride = c.out_c * lanes,
                           .channel_stride = lanes,
                           .kernel_w = w_axis.axis.taps.size()},
               .target = {.images = dx,
                          .height = c.in_h,
                          .width = c.in_w,
                          .channels = c.in_c,
                          .first_channel = 0,
                          .row_step = c.stride_h,
                          .column_step = c.stride_w,
                          .parts = c.stride_h},
               .doubt = &doubt},
              pool);
  return !doubt;
}

}  // namespace butterfly::kernels
