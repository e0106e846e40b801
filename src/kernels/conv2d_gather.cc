// A band of outputs at a time: its pixels fit the second cache together with one panel of weights, and each
// tile reads 14 of them through pointers. Nothing is unrolled into columns.
#include "kernels/conv2d_gather.h"

#include "tensor/buffer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv2d_gather.cc"
#include "hwy/foreach_target.h"
#include "kernels/epilogue-inl.h"
#include "kernels/gemm_pack-inl.h"
#include "kernels/gemm_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
void run_taps(const TapJob&, ThreadPool&) {}  // the plain loops are called instead
#else

namespace {

inline constexpr size_t kBandFloats = 160 << 10;  // of the source, per band

// What all threads of one job share.
struct TapPlan {
  const TapJob& job;
  TapSource::Offsets offsets;
  size_t depth;  // steps of a sum
  size_t panels;
  bool in_order;  // consecutive outputs are neighbours in the target
  const float* packed = nullptr;

  explicit TapPlan(const TapJob& j) : job(j), offsets(j.source.offsets()) {
    depth = offsets.at.size() * offsets.run;
    panels = (job.weights.outputs + kTileCols - 1) / kTileCols;
    const TapTarget& t = job.target;
    in_order = t.row_step == 1 && t.column_step == 1 && job.source.h.outputs == t.height &&
               job.source.w.outputs == t.width;
  }
};

HWY_NOINLINE void PackTapPanel(const TapPlan& plan, size_t panel, float* to) {
  const TapWeights& w = plan.job.weights;
  const TapSource& s = plan.job.source;
  const size_t first = panel * kTileCols, cols = std::min(kTileCols, w.outputs - first);
  float* at = to;
  for (size_t ky : s.h.kernel)
    for (size_t kx : s.w.kernel) {
      const float* from = w.data + (ky * w.kernel_w + kx) * w.tap_stride + first * w.output_stride;
      if (w.channel_stride == 1) {
        PackRows([&](size_t r) { return from + r * w.output_stride; }, cols, s.channels, at, kTileCols);
      } else {
        PackColumns(from, w.channel_stride, cols, w.outputs - first, s.channels, at, kTileCols);
      }
      at += s.channels * kTileCols;
    }
  PadSteps(to, cols, kTileCols, plan.depth);
}

// The outputs of one band.
struct Band {
  std::vector<const float*> from;  // the lowest tap of each
  std::vector<size_t> to;          // its first channel in the target
};

HWY_NOINLINE void MultiplyBand(const TapPlan& plan, const Band& band) {
  const TapTarget& target = plan.job.target;
  const Tiling tiling(band.from.size());
  alignas(64) float tile[kTileHeight * kTileCols];
  for (size_t panel = 0; panel < plan.panels; ++panel) {
    const size_t first = panel * kTileCols, cols = std::min(kTileCols, plan.job.weights.outputs - first);
    const float* b = plan.packed + panel * plan.depth * kTileCols;
    const bool straight = plan.in_order && cols == kTileCols;
    for (size_t t = 0; t < tiling.tiles; ++t) {
      const size_t begin = tiling.begin(t), height = tiling.height(t);
      float* c = straight ? target.images + band.to[begin] + first : tile;
      RowTileFor(height)(band.from.data() + begin, plan.offsets.at.data(), plan.offsets.at.size(),
                         plan.offsets.run, b, c, straight ? target.channels : kTileCols, Chain::kFresh);
      if (straight && !HasEffect(plan.job.epilogue)) continue;
      for (size_t m = 0; m < height; ++m) {
        const size_t at = band.to[begin + m] + first;
        FinishRow(plan.job.epilogue, straight ? target.images + at : tile + m * kTileCols,
                  target.first_channel + first, at, cols, target.images + at);
      }
    }
  }
}

// Rows of outputs, counted through the batch.
HWY_NOINLINE void RunRows(const TapPlan& plan, size_t begin, size_t end) {
  const TapSource& s = plan.job.source;
  const TapTarget& t = plan.job.target;
  thread_local Buffer copies;
  thread_local Band band;
  const size_t row_step = s.h.step * s.row_stride(), column_step = s.w.step * s.pixel_stride();
  const size_t rows_max = std::max<size_t>(kBandFloats / std::max<size_t>(row_step, 1), 1);
  const size_t copy_max = rows_max * s.copy_floats(1);  // separate images cost the most
  if (copies.size() < copy_max * sizeof(float)) copies = Buffer::allocate(copy_max * sizeof(float));
  for (size_t row = begin; row < end;) {
    const size_t stop = std::min(end, row + rows_max);
    auto* copy = reinterpret_cast<float*>(copies.data());
    band.from.clear();
    band.to.clear();
    while (row < stop) {
      const size_t image = row / s.h.outputs, first = row % s.h.outputs;
      const size_t rows = std::min(stop - row, s.h.outputs - first);
      const float* window = s.window(image, first, rows, copy);
      for (size_t i = 0; i < rows; ++i) {
        const size_t y = t.row0 + (first + i) * t.row_step;
        for (size_t j = 0; j < s.w.outputs; ++j) {
          band.from.push_back(window + i * row_step + j * column_step);
          band.to.push_back(((image * t.height + y) * t.width + t.column0 + j * t.column_step) * t.channels +
                            t.first_channel);
        }
      }
      copy += s.copy_floats(rows);
      row += rows;
    }
    MultiplyBand(plan, band);
  }
}

}  // namespace

void run_taps(const TapJob& job, ThreadPool& pool) {
  TapPlan plan(job);
  const size_t rows = job.batch * job.source.h.outputs;
  if (rows == 0 || job.source.w.outputs == 0) return;
  thread_local Buffer packed;
  const size_t floats = plan.panels * plan.depth * kTileCols + kPackSlack;
  if (packed.size() < floats * sizeof(float)) packed = Buffer::allocate(floats * sizeof(float));
  auto* to = reinterpret_cast<float*>(packed.data());
  plan.packed = to;
  pool.parallel_for(plan.panels, 1, [&](size_t begin, size_t end) {
    for (size_t panel = begin; panel < end; ++panel)
      PackTapPanel(plan, panel, to + panel * plan.depth * kTileCols);
  });
  pool.parallel_for(rows, 1, [&](size_t begin, size_t end) { RunRows(plan, begin, end); });
}
#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(run_taps);
}  // namespace

void gather_taps(const TapJob& job, ThreadPool& pool) { HWY_DYNAMIC_DISPATCH(run_taps)(job, pool); }

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
