#include "kernels/conv2d/conv2d_depthwise.h"

#include <algorithm>
#include <vector>

#include "kernels/conv2d/conv2d_gather.h"
#include "kernels/simd/position_block.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv2d/conv2d_depthwise.cc"
#include "hwy/foreach_target.h"
#include "kernels/gemm/epilogue-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
// The plain loops are called instead.
void depthwise_gather(const TapJob&, ThreadPool&) {}
void depthwise_sums(const Conv2d&, const float*, const float*, bool, float*, ThreadPool&) {}
#else

namespace {

inline constexpr size_t kWindowFloats = 64 << 10;  // of the source at a time

// Up to kVF channels of a pixel.
template <bool kWhole>
HWY_INLINE VF LoadChannels(const float* from, size_t count) {
  if constexpr (kWhole) return hn::LoadU(DF(), from);
  return LoadTail(from, count);
}
template <bool kWhole>
HWY_INLINE void StoreChannels(VF v, float* to, size_t count) {
  if constexpr (kWhole) return hn::StoreU(v, DF(), to);
  StoreTail(v, to, count);
}

// Where every tap stands from the lowest one.
std::vector<ptrdiff_t> TapOffsets(const TapSource& s) {
  std::vector<ptrdiff_t> offsets;
  for (ptrdiff_t y : s.h.taps)
    for (ptrdiff_t x : s.w.taps)
      offsets.push_back((y - s.h.lowest()) * static_cast<ptrdiff_t>(s.row_stride()) +
                        (x - s.w.lowest()) * static_cast<ptrdiff_t>(s.pixel_stride()));
  return offsets;
}

struct DepthPlan {
  const TapJob& job;
  std::vector<ptrdiff_t> taps;
  size_t row_step, column_step;  // of the source, from output to output
  std::vector<float> weights;    // [channel vectors][taps][kVF]

  explicit DepthPlan(const TapJob& j) : job(j), taps(TapOffsets(j.source)) {
    const TapSource& s = job.source;
    row_step = s.h.step * s.row_stride();
    column_step = s.w.step * s.pixel_stride();
    weights.resize((s.channels + kVF - 1) / kVF * kVF * taps.size());
    for (size_t c = 0; c < s.channels; ++c) {
      float* to = weights.data() + c / kVF * kVF * taps.size() + c % kVF;
      for (size_t ky : s.h.kernel)
        for (size_t kx : s.w.kernel) {
          *to = job.weights.data[c * job.weights.output_stride + ky * job.weights.kernel_w + kx];
          to += kVF;
        }
    }
  }
};

// kOutputs neighbouring outputs of one vector of channels; `to_step` floats apart in the target.
template <size_t kOutputs, bool kWhole>
HWY_INLINE void DepthPixels(const DepthPlan& plan, const float* from, const float* weights, size_t count,
                            float* to, size_t to_step) {
  VF acc[kOutputs];
  BF_UNROLL
  for (size_t j = 0; j < kOutputs; ++j) acc[j] = hn::Zero(DF());
  for (ptrdiff_t tap : plan.taps) {
    const VF w = hn::LoadU(DF(), weights);
    weights += kVF;
    BF_UNROLL
    for (size_t j = 0; j < kOutputs; ++j)
      acc[j] = Fma(LoadChannels<kWhole>(from + tap + j * plan.column_step, count), w, acc[j]);
  }
  BF_UNROLL
  for (size_t j = 0; j < kOutputs; ++j) StoreChannels<kWhole>(acc[j], to + j * to_step, count);
}

template <bool kWhole>
HWY_INLINE void DepthColumns(const DepthPlan& plan, const float* from, const float* weights, size_t count,
                             float* to, size_t to_step) {
  constexpr size_t kAtOnce = 8;
  const size_t columns = plan.job.source.w.outputs;
  size_t j = 0;
  for (; j + kAtOnce <= columns; j += kAtOnce)
    DepthPixels<kAtOnce, kWhole>(plan, from + j * plan.column_step, weights, count, to + j * to_step,
                                 to_step);
  for (; j < columns; ++j)
    DepthPixels<1, kWhole>(plan, from + j * plan.column_step, weights, count, to + j * to_step, to_step);
}

// One row of outputs, from its window.
HWY_NOINLINE void DepthRow(const DepthPlan& plan, const float* from, size_t image, size_t row) {
  const TapTarget& t = plan.job.target;
  const size_t channels = plan.job.source.channels, to_step = t.column_step * t.channels;
  const size_t at = ((image * t.height + t.row0 + row * t.row_step) * t.width + t.column0) * t.channels;
  const float* weights = plan.weights.data();
  size_t c = 0;
  for (; c + kVF <= channels; c += kVF, weights += plan.taps.size() * kVF)
    DepthColumns<true>(plan, from + c, weights, kVF, t.images + at + c, to_step);
  if (c < channels) DepthColumns<false>(plan, from + c, weights, channels - c, t.images + at + c, to_step);
  if (!HasEffect(plan.job.epilogue)) return;
  for (size_t j = 0; j < plan.job.source.w.outputs; ++j) {
    float* pixel = t.images + at + j * to_step;
    FinishRow(plan.job.epilogue, pixel, 0, at + j * to_step, channels, pixel);
  }
}

// Floats that belong to one thread.
float* ThreadFloats(size_t count) {
  thread_local std::vector<float> floats;
  if (floats.size() < count) floats.resize(count);
  return floats.data();
}

HWY_NOINLINE void DepthRows(const DepthPlan& plan, size_t begin, size_t end) {
  const TapSource& s = plan.job.source;
  const size_t rows_max = std::max<size_t>(kWindowFloats / std::max<size_t>(plan.row_step, 1), 1);
  float* copy = ThreadFloats(s.copy_floats(rows_max));
  for (size_t row = begin; row < end;) {
    const size_t image = row / s.h.outputs, first = row % s.h.outputs;
    const size_t rows = std::min({rows_max, end - row, s.h.outputs - first});
    const float* window = s.window(image, first, rows, copy);
    for (size_t i = 0; i < rows; ++i) DepthRow(plan, window + i * plan.row_step, image, first + i);
    row += rows;
  }
}

// ---- Gradient to the weights, one vector of channels: taps side by side, positions in order.
struct DepthSums {
  const Conv2d& c;
  TapSource source;  // these channels of x
  std::vector<ptrdiff_t> taps;
  const float* dy;
  size_t count;  // channels
  size_t row_step, column_step;
  std::vector<const float*> rows;  // windows of rows of outputs from first_row on
  size_t first_row = 0;

  // One block of positions joins the totals of kTaps taps.
  template <size_t kTaps, bool kWhole>
  HWY_INLINE void Block(size_t begin, size_t end, size_t tap, float* totals) const {
    const size_t width = source.w.outputs;
    VF acc[kTaps];
    BF_UNROLL
    for (size_t t = 0; t < kTaps; ++t) acc[t] = hn::Zero(DF());
    for (size_t position = begin; position < end;) {
      const size_t row = position / width, column = position % width;
      const size_t length = std::min(end - position, width - column);
      const float* x = rows[row - first_row] + column * column_step;
      const float* d = dy + position * c.out_c;
      for (size_t i = 0; i < length; ++i, x += column_step, d += c.out_c) {
        const VF v = LoadChannels<kWhole>(d, count);
        BF_UNROLL
        for (size_t t = 0; t < kTaps; ++t)
          acc[t] = Fma(v, LoadChannels<kWhole>(x + taps[tap + t], count), acc[t]);
      }
      position += length;
    }
    BF_UNROLL
    for (size_t t = 0; t < kTaps; ++t) {
      float* total = totals + (tap + t) * kVF;
      hn::StoreU(hn::Add(hn::LoadU(DF(), total), acc[t]), DF(), total);
    }
  }
  template <bool kWhole>
  HWY_INLINE void AllTaps(size_t begin, size_t end, float* totals) const {
    size_t tap = 0;
    for (; tap + 9 <= taps.size(); tap += 9) Block<9, kWhole>(begin, end, tap, totals);
    for (; tap + 3 <= taps.size(); tap += 3) Block<3, kWhole>(begin, end, tap, totals);
    for (; tap < taps.size(); ++tap) Block<1, kWhole>(begin, end, tap, totals);
  }

  HWY_NOINLINE void Run(float* totals) {
    const size_t width = source.w.outputs, height = source.h.outputs, positions = c.positions();
    const size_t rows_max = std::max<size_t>(kWindowFloats / 4 / std::max<size_t>(row_step, 1), 1);
    const size_t step = std::max<size_t>(rows_max * width / kPositionBlock, 1) * kPositionBlock;
    for (size_t at = 0; at < positions; at += step) {
      const size_t end = std::min(positions, at + step), last_row = (end - 1) / width;
      first_row = at / width;
      float* copy = ThreadFloats((last_row - first_row + 1) * source.copy_floats(1));
      rows.clear();
      for (size_t row = first_row; row <= last_row;) {
        const size_t many = std::min(last_row + 1 - row, height - row % height);
        const float* window = source.window(row / height, row % height, many, copy);
        for (size_t i = 0; i < many; ++i) rows.push_back(window + i * row_step);
        copy += source.copy_floats(many);
        row += many;
      }
      for (size_t begin = at; begin < end; begin += kPositionBlock) {
        const size_t stop = std::min(end, begin + kPositionBlock);
        count == kVF ? AllTaps<true>(begin, stop, totals) : AllTaps<false>(begin, stop, totals);
      }
    }
  }
};

HWY_NOINLINE void SumChannels(const Conv2d& c, const float* x, const float* dy, bool accumulate, float* dw,
                              size_t channel) {
  const size_t count = std::min(kVF, c.out_c - channel), tap_count = c.kernel_h * c.kernel_w;
  DepthSums sums{c,
                 {.h = forward_axis(c.out_h(), c.in_h, c.kernel_h, c.stride_h, c.pad_top, c.dilation_h),
                  .w = forward_axis(c.out_w(), c.in_w, c.kernel_w, c.stride_w, c.pad_left, c.dilation_w),
                  .images = x,
                  .image_channels = c.in_c,
                  .first_channel = channel,
                  .channels = count},
                 {},
                 dy + channel,
                 count,
                 0,
                 0,
                 {}};
  sums.taps = TapOffsets(sums.source);
  sums.row_step = sums.source.h.step * sums.source.row_stride();
  sums.column_step = sums.source.w.step * sums.source.pixel_stride();
  std::vector<float> totals(tap_count * kVF);
  for (size_t t = 0; accumulate && t < tap_count; ++t)
    for (size_t i = 0; i < count; ++i) totals[t * kVF + i] = dw[(channel + i) * tap_count + t];
  sums.Run(totals.data());
  for (size_t t = 0; t < tap_count; ++t)
    for (size_t i = 0; i < count; ++i) dw[(channel + i) * tap_count + t] = totals[t * kVF + i];
}

}  // namespace

void depthwise_gather(const TapJob& job, ThreadPool& pool) {
  const DepthPlan plan(job);
  if (job.source.w.outputs == 0) return;
  pool.parallel_for(job.batch * job.source.h.outputs, 1,
                    [&](size_t begin, size_t end) { DepthRows(plan, begin, end); });
}

void depthwise_sums(const Conv2d& c, const float* x, const float* dy, bool accumulate, float* dw,
                    ThreadPool& pool) {
  pool.parallel_for((c.out_c + kVF - 1) / kVF, 1, [&](size_t begin, size_t end) {
    for (size_t v = begin; v < end; ++v) SumChannels(c, x, dy, accumulate, dw, v * kVF);
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
