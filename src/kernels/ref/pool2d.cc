#include "kernels/pool2d/pool2d.h"

#include <cmath>

#include "kernels/pool2d/pool2d_window.h"

namespace butterfly::kernels::ref {
namespace {

// Calls fn(oy, ox, channel, index into y, image of the batch).
template <class F>
void each_output(const Pool2d& p, F&& fn) {
  size_t at = 0;
  for (size_t n = 0; n < p.batch; ++n)
    for (size_t oy = 0; oy < p.out_h(); ++oy)
      for (size_t ox = 0; ox < p.out_w(); ++ox)
        for (size_t c = 0; c < p.channels; ++c) fn(oy, ox, c, at++, n);
}

// Calls fn(tap, value) for the taps inside the image, in order.
template <class F>
void each_tap(const Pool2d& p, const float* x, size_t n, size_t oy, size_t ox, size_t c, F&& fn) {
  const IndexRange h = taps_inside(oy, p.in_h, p.kernel_h, p.stride_h, p.pad_top);
  const IndexRange w = taps_inside(ox, p.in_w, p.kernel_w, p.stride_w, p.pad_left);
  for (size_t ky = h.begin; ky < h.end; ++ky)
    for (size_t kx = w.begin; kx < w.end; ++kx) {
      const size_t iy = oy * p.stride_h + ky - p.pad_top, ix = ox * p.stride_w + kx - p.pad_left;
      fn(ky * p.kernel_w + kx, x[((n * p.in_h + iy) * p.in_w + ix) * p.channels + c]);
    }
}

// dx[i] = sum of fn(oy, ox, tap, index into y) over the windows that hold pixel i.
template <class F>
void each_input(const Pool2d& p, float* dx, F&& fn) {
  size_t at = 0;
  for (size_t n = 0; n < p.batch; ++n)
    for (size_t iy = 0; iy < p.in_h; ++iy)
      for (size_t ix = 0; ix < p.in_w; ++ix)
        for (size_t c = 0; c < p.channels; ++c) {
          const IndexRange h = windows_of(iy, p.out_h(), p.kernel_h, p.stride_h, p.pad_top);
          const IndexRange w = windows_of(ix, p.out_w(), p.kernel_w, p.stride_w, p.pad_left);
          float acc = 0;
          for (size_t oy = h.begin; oy < h.end; ++oy)
            for (size_t ox = w.begin; ox < w.end; ++ox) {
              const size_t ky = iy + p.pad_top - oy * p.stride_h, kx = ix + p.pad_left - ox * p.stride_w;
              acc = fn(acc, oy, ox, ky * p.kernel_w + kx,
                       ((n * p.out_h() + oy) * p.out_w() + ox) * p.channels + c);
            }
          dx[at++] = acc;
        }
}

}  // namespace

void max_pool2d_forward(const Pool2d& p, const float* x, float* y, uint16_t* taps) {
  each_output(p, [&](size_t oy, size_t ox, size_t c, size_t at, size_t n) {
    bool first = true;
    float best = 0;
    size_t best_tap = 0;
    each_tap(p, x, n, oy, ox, c, [&](size_t tap, float value) {
      if (first || value > best || std::isnan(value)) {
        best = value;
        best_tap = tap;
      }
      first = false;
    });
    y[at] = best;
    if (taps != nullptr) taps[at] = static_cast<uint16_t>(best_tap);
  });
}

void max_pool2d_backward(const Pool2d& p, const float* dy, const uint16_t* taps, float* dx) {
  each_input(p, dx, [&](float acc, size_t, size_t, size_t tap, size_t at) {
    return taps[at] == tap ? acc + dy[at] : acc;
  });
}

void avg_pool2d_forward(const Pool2d& p, const float* x, float* y) {
  each_output(p, [&](size_t oy, size_t ox, size_t c, size_t at, size_t n) {
    float acc = 0;
    each_tap(p, x, n, oy, ox, c, [&](size_t, float value) { acc += value; });
    y[at] = acc / window_count(p, oy, ox);
  });
}

void avg_pool2d_backward(const Pool2d& p, const float* dy, float* dx) {
  each_input(p, dx, [&](float acc, size_t oy, size_t ox, size_t, size_t at) {
    return acc + dy[at] / window_count(p, oy, ox);
  });
}

}  // namespace butterfly::kernels::ref
