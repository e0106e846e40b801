#include "kernels/pool2d/pool2d.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/pool2d/pool2d_window.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool2d/pool2d.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/vector_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void run_max_forward(const Pool2d& p, const float* x, float* y, uint16_t* taps, ThreadPool&) {
  ref::max_pool2d_forward(p, x, y, taps);
}
void run_max_backward(const Pool2d& p, const float* dy, const uint16_t* taps, float* dx, ThreadPool&) {
  ref::max_pool2d_backward(p, dy, taps, dx);
}
void run_avg_forward(const Pool2d& p, const float* x, float* y, ThreadPool&) {
  ref::avg_pool2d_forward(p, x, y);
}
void run_avg_backward(const Pool2d& p, const float* dy, float* dx, ThreadPool&) {
  ref::avg_pool2d_backward(p, dy, dx);
}

#else
namespace {

using D16 = hn::Rebind<uint16_t, DF>;

// Channels [c, c + count) of a pixel, whole vectors or the last, partial one; taps likewise.
struct Channels {
  size_t count;
  HWY_INLINE VF Load(const float* from) const {
    return count == kVF ? hn::LoadU(DF(), from) : LoadTail(from, count);
  }
  HWY_INLINE void Store(VF v, float* to) const {
    if (count == kVF) return hn::StoreU(v, DF(), to);
    StoreTail(v, to, count);
  }
  HWY_INLINE VI LoadTaps(const uint16_t* from) const {
    if (count == kVF) return hn::PromoteTo(DI(), hn::LoadU(D16(), from));
    uint16_t buffer[kVF] = {};
    std::copy_n(from, count, buffer);
    return hn::PromoteTo(DI(), hn::LoadU(D16(), buffer));
  }
  HWY_INLINE void StoreTaps(VI v, uint16_t* to) const {
    alignas(64) int32_t lanes[kVF];
    hn::Store(v, DI(), lanes);
    for (size_t i = 0; i < count; ++i) to[i] = static_cast<uint16_t>(lanes[i]);
  }
};

template <class F>
HWY_INLINE void EachChannels(size_t channels, F f) {
  for (size_t c = 0; c < channels; c += kVF) f(c, Channels{std::min(kVF, channels - c)});
}

// The taps of one window that lie inside the image.
struct Window {
  const Pool2d& p;
  IndexRange h, w;
  const float* first;  // tap (0, 0), channel 0; it may lie outside

  HWY_INLINE Window(const Pool2d& pool2d, const float* x, size_t image, size_t oy, size_t ox)
      : p(pool2d),
        h(taps_inside(oy, p.in_h, p.kernel_h, p.stride_h, p.pad_top)),
        w(taps_inside(ox, p.in_w, p.kernel_w, p.stride_w, p.pad_left)),
        first(x + (static_cast<ptrdiff_t>((image * p.in_h + oy * p.stride_h) * p.in_w + ox * p.stride_w) -
                   static_cast<ptrdiff_t>(p.pad_top * p.in_w + p.pad_left)) *
                      static_cast<ptrdiff_t>(p.channels)) {}
  template <class F>
  HWY_INLINE void Each(F f) const {
    for (size_t ky = h.begin; ky < h.end; ++ky)
      for (size_t kx = w.begin; kx < w.end; ++kx)
        f(ky * p.kernel_w + kx, first + (ky * p.in_w + kx) * p.channels);
  }
};

HWY_NOINLINE void MaxRow(const Pool2d& p, const float* x, size_t row, float* y, uint16_t* taps) {
  const DF d;
  const size_t width = p.out_w(), image = row / p.out_h(), oy = row % p.out_h();
  for (size_t ox = 0; ox < width; ++ox) {
    const Window window(p, x, image, oy, ox);
    const size_t at = (row * width + ox) * p.channels;
    EachChannels(p.channels, [&](size_t c, Channels part) HWY_ATTR {
      const size_t start = window.h.begin * p.kernel_w + window.w.begin;
      VF best = hn::Zero(d);
      VI tap_of = hn::Zero(DI());
      window.Each([&](size_t tap, const float* pixel) HWY_ATTR {
        const VF v = part.Load(pixel + c);
        const auto taken =
            tap == start ? hn::Eq(hn::Zero(d), hn::Zero(d)) : hn::Or(hn::Gt(v, best), hn::IsNaN(v));
        best = hn::IfThenElse(taken, v, best);
        tap_of =
            hn::IfThenElse(hn::RebindMask(DI(), taken), hn::Set(DI(), static_cast<int32_t>(tap)), tap_of);
      });
      part.Store(best, y + at + c);
      if (taps != nullptr) part.StoreTaps(tap_of, taps + at + c);
    });
  }
}

HWY_NOINLINE void AvgRow(const Pool2d& p, const float* x, size_t row, float* y) {
  const size_t width = p.out_w(), image = row / p.out_h(), oy = row % p.out_h();
  for (size_t ox = 0; ox < width; ++ox) {
    const Window window(p, x, image, oy, ox);
    const VF count = hn::Set(DF(), window_count(p, oy, ox));
    EachChannels(p.channels, [&](size_t c, Channels part) HWY_ATTR {
      VF acc = hn::Zero(DF());
      window.Each([&](size_t, const float* pixel) HWY_ATTR { acc = hn::Add(acc, part.Load(pixel + c)); });
      part.Store(hn::Div(acc, count), y + (row * width + ox) * p.channels + c);
    });
  }
}

// Row `row` of dx: acc = add(acc, part, index into y, tap, oy, ox) over the windows that hold each pixel.
template <class Add>
HWY_INLINE void GatherRow(const Pool2d& p, size_t row, float* dx, Add add) {
  const size_t height = p.out_h(), width = p.out_w(), image = row / p.in_h, iy = row % p.in_h;
  const IndexRange h = windows_of(iy, height, p.kernel_h, p.stride_h, p.pad_top);
  for (size_t ix = 0; ix < p.in_w; ++ix) {
    const IndexRange w = windows_of(ix, width, p.kernel_w, p.stride_w, p.pad_left);
    EachChannels(p.channels, [&](size_t c, Channels part) HWY_ATTR {
      VF acc = hn::Zero(DF());
      for (size_t oy = h.begin; oy < h.end; ++oy)
        for (size_t ox = w.begin; ox < w.end; ++ox) {
          const size_t ky = iy + p.pad_top - oy * p.stride_h, kx = ix + p.pad_left - ox * p.stride_w;
          acc = add(acc, part, ((image * height + oy) * width + ox) * p.channels + c, ky * p.kernel_w + kx,
                    oy, ox);
        }
      part.Store(acc, dx + (row * p.in_w + ix) * p.channels + c);
    });
  }
}

HWY_NOINLINE void MaxGradientRow(const Pool2d& p, const float* dy, const uint16_t* taps, size_t row,
                                 float* dx) {
  GatherRow(p, row, dx, [&](VF acc, Channels part, size_t at, size_t tap, size_t, size_t) HWY_ATTR {
    const auto here = hn::Eq(part.LoadTaps(taps + at), hn::Set(DI(), static_cast<int32_t>(tap)));
    return hn::IfThenElse(hn::RebindMask(DF(), here), hn::Add(acc, part.Load(dy + at)), acc);
  });
}

HWY_NOINLINE void AvgGradientRow(const Pool2d& p, const float* dy, size_t row, float* dx) {
  GatherRow(p, row, dx, [&](VF acc, Channels part, size_t at, size_t, size_t oy, size_t ox) HWY_ATTR {
    return hn::Add(acc, hn::Div(part.Load(dy + at), hn::Set(DF(), window_count(p, oy, ox))));
  });
}

}  // namespace

void run_max_forward(const Pool2d& p, const float* x, float* y, uint16_t* taps, ThreadPool& pool) {
  pool.parallel_for(p.batch * p.out_h(), 1, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) MaxRow(p, x, row, y, taps);
  });
}
void run_max_backward(const Pool2d& p, const float* dy, const uint16_t* taps, float* dx, ThreadPool& pool) {
  pool.parallel_for(p.batch * p.in_h, 1, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) MaxGradientRow(p, dy, taps, row, dx);
  });
}
void run_avg_forward(const Pool2d& p, const float* x, float* y, ThreadPool& pool) {
  pool.parallel_for(p.batch * p.out_h(), 1, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) AvgRow(p, x, row, y);
  });
}
void run_avg_backward(const Pool2d& p, const float* dy, float* dx, ThreadPool& pool) {
  pool.parallel_for(p.batch * p.in_h, 1, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) AvgGradientRow(p, dy, row, dx);
  });
}

#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(run_max_forward);
HWY_EXPORT(run_max_backward);
HWY_EXPORT(run_avg_forward);
HWY_EXPORT(run_avg_backward);
}  // namespace

void max_pool2d_forward(const Pool2d& p, const float* x, float* y, uint16_t* taps, ThreadPool& pool) {
  BF_CHECK(p.kernel_h * p.kernel_w <= 65536) << p.kernel_h << " x " << p.kernel_w;
  HWY_DYNAMIC_DISPATCH(run_max_forward)(p, x, y, taps, pool);
}
void max_pool2d_backward(const Pool2d& p, const float* dy, const uint16_t* taps, float* dx,
                         ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(run_max_backward)(p, dy, taps, dx, pool);
}
void avg_pool2d_forward(const Pool2d& p, const float* x, float* y, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(run_avg_forward)(p, x, y, pool);
}
void avg_pool2d_backward(const Pool2d& p, const float* dy, float* dx, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(run_avg_backward)(p, dy, dx, pool);
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
