// Which taps of a pooling window lie inside the image, and which windows hold a pixel. One axis at a time.
#pragma once
#include <algorithm>
#include <cstddef>

#include "kernels/pool2d/pool2d.h"

namespace butterfly::kernels {

// Indices [begin, end) of an axis.
struct IndexRange {
  size_t begin, end;
};

// The taps of window `out` that lie in [0, in) of an axis: input = out * stride + tap - pad.
inline IndexRange taps_inside(size_t out, size_t in, size_t kernel, size_t stride, size_t pad) {
  const size_t start = out * stride;  // in padded coordinates
  const size_t begin = start >= pad ? 0 : pad - start;
  const size_t end = in + pad > start ? std::min(kernel, in + pad - start) : 0;
  return {std::min(begin, end), end};
}

// The windows [begin, end) of an axis that hold input `at`.
inline IndexRange windows_of(size_t at, size_t out, size_t kernel, size_t stride, size_t pad) {
  const size_t padded = at + pad;
  const size_t begin = padded < kernel ? 0 : (padded - kernel) / stride + 1;
  const size_t end = std::min(out, padded / stride + 1);
  return {std::min(begin, end), end};
}

// What an average over window (oy, ox) divides by.
inline float window_count(const Pool2d& p, size_t oy, size_t ox) {
  if (p.count_padding) return static_cast<float>(p.kernel_h * p.kernel_w);
  const IndexRange h = taps_inside(oy, p.in_h, p.kernel_h, p.stride_h, p.pad_top);
  const IndexRange w = taps_inside(ox, p.in_w, p.kernel_w, p.stride_w, p.pad_left);
  return static_cast<float>((h.end - h.begin) * (w.end - w.begin));
}

}  // namespace butterfly::kernels
