#include "kernels/conv2d_depthwise.h"

#include <vector>

#include "kernels/conv2d_gather.h"
#include "kernels/position_block.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv2d_depthwise.cc"
#include "hwy/foreach_target.h"
#include "kernels/epilogue-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
// The plain loops are called instead.
void depthwise_gather(const TapJob&, ThreadPool&) {}
void depthwise_sums(const Conv2d&, const float*, const float*, bool, float*, ThreadPool&) {}
#else

namespace {

// Up to kVF channels of a pixel.
HWY_INLINE VF LoadChannels(const float* from, size_t count) {
  return count >= kVF ? hn::LoadU(DF(), from) : LoadTail(from, count);
}
HWY_INLINE void StoreChannels(VF v, float* to, size_t count) {
  if (count >= kVF) return hn::StoreU(v, DF(), to);
  StoreTail(v, to, count);
}

// Pixels of a source row, or a row of zeros.
struct SourceRow {
  const float* pixels;  // null: outside
  size_t width, stride;
  HWY_INLINE VF At(ptrdiff_t x, size_t count) const {
    if (pixels == nullptr || x < 0 || x >= static_cast<ptrdiff_t>(width)) return hn::Zero(DF());
    return LoadChannels(pixels + static_cast<size_t>(x) * stride, count);
  }
};

// Outputs [column, column + kOutputs) of one row, one vector of channels. `weights` is [taps][kVF].
template <size_t kOutputs>
HWY_INLINE void DepthwisePixels(const TapJob& job, const SourceRow* rows, const float* weights, size_t column,
                                size_t count, float* const* to) {
  const TapAxis& w = job.source.w;
  VF acc[kOutputs];
  BF_UNROLL
  for (size_t j = 0; j < kOutputs; ++j) acc[j] = hn::Zero(DF());
  for (size_t ky = 0; ky < job.source.h.taps.size(); ++ky)
    for (size_t kx = 0; kx < w.taps.size(); ++kx, weights += kVF) {
      const VF tap = hn::LoadU(DF(), weights);
      const ptrdiff_t x = static_cast<ptrdiff_t>(column * w.step) + w.taps[kx];
      BF_UNROLL
      for (size_t j = 0; j < kOutputs; ++j)
        acc[j] = Fma(rows[ky].At(x + static_cast<ptrdiff_t>(j * w.step), count), tap, acc[j]);
    }
  BF_UNROLL
  for (size_t j = 0; j < kOutputs; ++j) StoreChannels(acc[j], to[j], count);
}

// Row `row` of outputs of one image. `weights` is [channel vectors][taps][kVF].
HWY_NOINLINE void DepthwiseRow(const TapJob& job, size_t image, size_t row, const float* weights) {
  const TapSource& s = job.source;
  const TapTarget& t = job.target;
  std::vector<SourceRow> rows;
  for (ptrdiff_t tap : s.h.taps) {
    const ptrdiff_t y = static_cast<ptrdiff_t>(row * s.h.step) + tap;
    const bool inside = y >= 0 && y < static_cast<ptrdiff_t>(s.h.source);
    rows.push_back({inside
                        ? s.images + (image * s.h.source + static_cast<size_t>(y)) * s.w.source * s.channels
                        : nullptr,
                    s.w.source, s.channels});
  }
  const size_t taps = s.h.taps.size() * s.w.taps.size();
  const size_t start = (image * t.height + t.row0 + row * t.row_step) * t.width + t.column0;
  const auto at = [&](size_t column) { return (start + column * t.column_step) * t.channels; };
  for (size_t c = 0; c < s.channels; c += kVF) {
    const size_t count = std::min(kVF, s.channels - c);
    size_t column = 0;
    for (; column + 4 <= s.w.outputs; column += 4) {
      float* to[4];
      for (size_t j = 0; j < 4; ++j) to[j] = t.images + at(column + j) + c;
      DepthwisePixels<4>(job, rows.data(), weights, column, count, to);
    }
    for (; column < s.w.outputs; ++column) {
      float* to = t.images + at(column) + c;
      DepthwisePixels<1>(job, rows.data(), weights, column, count, &to);
    }
    weights += taps * kVF;
    for (SourceRow& source : rows)
      if (source.pixels != nullptr) source.pixels += kVF;
  }
  if (HasEffect(job.epilogue))
    for (size_t column = 0; column < s.w.outputs; ++column)
      FinishRow(job.epilogue, t.images + at(column), 0, at(column), s.channels, t.images + at(column));
}

}  // namespace

void depthwise_gather(const TapJob& job, ThreadPool& pool) {
  const TapSource& s = job.source;
  const size_t taps = s.h.taps.size() * s.w.taps.size();
  std::vector<float> weights((s.channels + kVF - 1) / kVF * kVF * taps);
  for (size_t c = 0; c < s.channels; ++c) {
    float* to = weights.data() + c / kVF * kVF * taps + c % kVF;
    for (size_t ky : s.h.kernel)
      for (size_t kx : s.w.kernel) {
        *to = job.weights.data[c * job.weights.output_stride + ky * job.weights.kernel_w + kx];
        to += kVF;
      }
  }
  pool.parallel_for(job.batch * s.h.outputs, 1, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row)
      DepthwiseRow(job, row / s.h.outputs, row % s.h.outputs, weights.data());
  });
}

namespace {

// ---- Gradient to the weights: one vector of channels, kTaps neighbouring taps of one kernel row.
template <size_t kTaps>
HWY_INLINE void TapSumsOf(const Conv2d& c, const float* x, const float* dy, size_t ky, size_t kx,
                          size_t count, VF* totals) {
  const size_t width = c.out_w(), height = c.out_h(), positions = c.positions();
  for (size_t begin = 0; begin < positions; begin += kPositionBlock) {
    const size_t end = std::min(positions, begin + kPositionBlock);
    VF acc[kTaps];
    BF_UNROLL
    for (size_t t = 0; t < kTaps; ++t) acc[t] = hn::Zero(DF());
    for (size_t position = begin; position < end;) {
      const size_t row = position / width, first = position % width;
      const size_t last = std::min(width, first + (end - position));
      const ptrdiff_t y = static_cast<ptrdiff_t>(row % height * c.stride_h + ky * c.dilation_h) -
                          static_cast<ptrdiff_t>(c.pad_top);
      const bool inside = y >= 0 && y < static_cast<ptrdiff_t>(c.in_h);
      const SourceRow source{
          inside ? x + (row / height * c.in_h + static_cast<size_t>(y)) * c.in_w * c.in_c : nullptr, c.in_w,
          c.in_c};
      for (size_t ox = first; ox < last; ++ox) {
        const VF d = LoadChannels(dy + (row * width + ox) * c.out_c, count);
        const ptrdiff_t at =
            static_cast<ptrdiff_t>(ox * c.stride_w + kx * c.dilation_w) - static_cast<ptrdiff_t>(c.pad_left);
        BF_UNROLL
        for (size_t t = 0; t < kTaps; ++t)
          acc[t] = Fma(d, source.At(at + static_cast<ptrdiff_t>(t * c.dilation_w), count), acc[t]);
      }
      position += last - first;
    }
    BF_UNROLL
    for (size_t t = 0; t < kTaps; ++t) totals[t] = hn::Add(totals[t], acc[t]);
  }
}

HWY_NOINLINE void DepthwiseSums(const Conv2d& c, const float* x, const float* dy, bool accumulate, float* dw,
                                size_t channel) {
  const size_t count = std::min(kVF, c.out_c - channel), taps = c.kernel_h * c.kernel_w;
  for (size_t ky = 0; ky < c.kernel_h; ++ky)
    for (size_t kx = 0; kx < c.kernel_w;) {
      const size_t width = c.kernel_w - kx >= 5 ? 5 : c.kernel_w - kx >= 3 ? 3 : 1;
      VF totals[5];
      alignas(64) float lanes[kVF] = {};
      for (size_t t = 0; t < width; ++t) {
        for (size_t i = 0; accumulate && i < count; ++i)
          lanes[i] = dw[(channel + i) * taps + ky * c.kernel_w + kx + t];
        totals[t] = hn::Load(DF(), lanes);
      }
      if (width == 5) TapSumsOf<5>(c, x + channel, dy + channel, ky, kx, count, totals);
      if (width == 3) TapSumsOf<3>(c, x + channel, dy + channel, ky, kx, count, totals);
      if (width == 1) TapSumsOf<1>(c, x + channel, dy + channel, ky, kx, count, totals);
      for (size_t t = 0; t < width; ++t) {
        hn::Store(totals[t], DF(), lanes);
        for (size_t i = 0; i < count; ++i) dw[(channel + i) * taps + ky * c.kernel_w + kx + t] = lanes[i];
      }
      kx += width;
    }
}

}  // namespace

void depthwise_sums(const Conv2d& c, const float* x, const float* dy, bool accumulate, float* dw,
                    ThreadPool& pool) {
  pool.parallel_for((c.out_c + kVF - 1) / kVF, 1, [&](size_t begin, size_t end) {
    for (size_t v = begin; v < end; ++v) DepthwiseSums(c, x, dy, accumulate, dw, v * kVF);
  });
}
#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(depthwise_gather);
HWY_EXPORT(depthwise_sums);
}  // namespace

void depthwise_forward(const Conv2d& c, const float* x, const float* w, const Epilogue& epilogue, float* y,
                       ThreadPool& pool) {
  const TapJob job{
      .batch = c.batch,
      .source = {.h = forward_axis(c.out_h(), c.in_h, c.kernel_h, c.stride_h, c.pad_top, c.dilation_h),
                 .w = forward_axis(c.out_w(), c.in_w, c.kernel_w, c.stride_w, c.pad_left, c.dilation_w),
                 .images = x,
                 .image_channels = c.in_c,
                 .channels = c.in_c},
      .weights = {.data = w, .output_stride = c.kernel_h * c.kernel_w, .kernel_w = c.kernel_w},
      .target = {.images = y, .height = c.out_h(), .width = c.out_w(), .channels = c.out_c},
      .epilogue = epilogue};
  HWY_DYNAMIC_DISPATCH(depthwise_gather)(job, pool);
}

void depthwise_backward_data(const Conv2d& c, const float* dy, const float* w, float* dx, ThreadPool& pool) {
  for (size_t py = 0; py < c.stride_h; ++py)
    for (size_t px = 0; px < c.stride_w; ++px) {
      const TapJob job{
          .batch = c.batch,
          .source = {.h = data_axis(py, c.in_h, c.out_h(), c.kernel_h, c.stride_h, c.pad_top, c.dilation_h),
                     .w = data_axis(px, c.in_w, c.out_w(), c.kernel_w, c.stride_w, c.pad_left, c.dilation_w),
                     .images = dy,
                     .image_channels = c.out_c,
                     .channels = c.out_c},
          .weights = {.data = w, .output_stride = c.kernel_h * c.kernel_w, .kernel_w = c.kernel_w},
          .target = {.images = dx,
                     .height = c.in_h,
                     .width = c.in_w,
                     .channels = c.in_c,
                     .row0 = py,
                     .row_step = c.stride_h,
                     .column0 = px,
                     .column_step = c.stride_w}};
      HWY_DYNAMIC_DISPATCH(depthwise_gather)(job, pool);
    }
}

void depthwise_backward_weights(const Conv2d& c, const float* x, const float* dy, bool accumulate, float* dw,
                                ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(depthwise_sums)(c, x, dy, accumulate, dw, pool);
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
