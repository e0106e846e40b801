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
inline constexpr size_t kStepsMax = 1152;  // per visit to the outputs: weights stay in the second cache
inline constexpr size_t kNearWeights = 48
                                       << 10;  // floats that stay in the second cache beside everything else
// Floats from which on packing all weights before their use would push them out of the caches, and of a
// source that is still small enough to be walked for each panel.
inline constexpr size_t kManyWeights = 1 << 20, kSmallSource = 384 << 10;

// Some steps of the sums: these offsets, `run` floats each, from step `begin` on.
struct Piece {
  std::vector<ptrdiff_t> offsets;
  size_t run, begin;
};

// What all threads of one job share.
struct TapPlan {
  const TapJob& job;
  TapSource::Offsets offsets;
  size_t depth;  // steps of a sum
  size_t panels;
  bool in_order;  // consecutive outputs are neighbours in the target
  std::vector<Piece> pieces;
  const float* packed = nullptr;  // all panels; null: each is packed before its use

  explicit TapPlan(const TapJob& j) : job(j), offsets(j.source.offsets()) {
    depth = offsets.at.size() * offsets.run;
    panels = (job.weights.outputs + kTileCols - 1) / kTileCols;
    const TapTarget& t = job.target;
    in_order = t.row_step == 1 && t.column_step == 1 && job.source.h.outputs == t.height &&
               job.source.w.outputs == t.width;
    cut();
  }

 private:
  // Several whole offsets, or parts of a long one.
  void cut() {
    const size_t run = offsets.run;
    const size_t count = run == 0 ? 1 : std::max<size_t>(kStepsMax / run, 1);
    const size_t parts = (run + kStepsMax - 1) / kStepsMax, part = parts == 0 ? 0 : (run + parts - 1) / parts;
    for (size_t o = 0; o < offsets.at.size(); o += count)
      for (size_t start = 0; start < run; start += part) {
        Piece piece{{}, std::min(part, run - start), o * run + start};
        for (size_t i = o; i < std::min(o + count, offsets.at.size()); ++i)
          piece.offsets.push_back(offsets.at[i] + static_cast<ptrdiff_t>(start));
        pieces.push_back(std::move(piece));
      }
    if (pieces.empty()) pieces.push_back({{}, 0, 0});  // sums of nothing
  }
};

// One panel: outputs far apart in memory with their channels as neighbours, or the other way round.
HWY_NOINLINE void PackTapPanel(const TapPlan& plan, size_t panel, float* to) {
  const TapWeights& w = plan.job.weights;
  const TapSource& s = plan.job.source;
  const size_t first = panel * kTileCols, cols = std::min(kTileCols, w.outputs - first);
  float* at = to;
  for (size_t ky : s.h.kernel)
    for (size_t kx : s.w.kernel) {
      const float* from = w.data + (ky * w.kernel_w + kx) * w.tap_stride + first * w.output_stride;
      if (w.output_stride == 1) {
        PackColumns(from, w.channel_stride, cols, w.outputs - first, s.channels, at, kTileCols);
      } else {
        PackRows([&](size_t r) { return from + r * w.output_stride; }, cols, s.channels, at, kTileCols);
      }
      at += s.channels * kTileCols;
    }
  PadSteps(to, cols, kTileCols, plan.depth);
}

// Some steps of all panels, where outputs are neighbours in memory.
HWY_NOINLINE void PackTapSteps(const TapPlan& plan, size_t begin, size_t end, float* to) {
  const TapWeights& w = plan.job.weights;
  const TapSource& s = plan.job.source;
  for (size_t step = begin; step < end; ++step) {
    const size_t tap = step / s.channels, kx = s.w.kernel[tap % s.w.kernel.size()],
                 ky = s.h.kernel[tap / s.w.kernel.size()];
    const float* from = w.data + (ky * w.kernel_w + kx) * w.tap_stride + step % s.channels * w.channel_stride;
    for (size_t panel = 0; panel < plan.panels; ++panel) {
      const size_t first = panel * kTileCols, cols = std::min(kTileCols, w.outputs - first);
      float* at = to + (panel * plan.depth + step) * kTileCols;
      PackColumns(from + first, 0, cols, w.outputs - first, 1, at, kTileCols);
      PadSteps(at, cols, kTileCols, 1);
    }
  }
}

// The outputs of one band.
struct Band {
  std::vector<const float*> from;  // the lowest tap of each
  std::vector<size_t> to;          // its first channel in the target
  std::vector<float> sums;         // [outputs][kTileCols], where they cannot rest in the target
};

// One tile of a band, one panel, one piece of the sums.
HWY_INLINE void MultiplyTile(const TapPlan& plan, Band& band, size_t begin, size_t height, size_t panel,
                             const Piece& piece, const float* b) {
  const TapTarget& target = plan.job.target;
  const size_t first = panel * kTileCols, cols = std::min(kTileCols, plan.job.weights.outputs - first);
  const bool straight = plan.in_order && cols == kTileCols;
  const size_t stride = straight ? target.channels : kTileCols;
  float* c = straight ? target.images + band.to[begin] + first : band.sums.data() + begin * kTileCols;
  RowTileFor(height)(band.from.data() + begin, piece.offsets.data(), piece.offsets.size(), piece.run,
                     b + piece.begin * kTileCols, c, stride,
                     piece.begin == 0 ? Chain::kFresh : Chain::kContinue);
  if (&piece != &plan.pieces.back() || (straight && !HasEffect(plan.job.epilogue))) return;
  for (size_t m = 0; m < height; ++m) {
    const size_t at = band.to[begin + m] + first;
    FinishRow(plan.job.epilogue, c + m * stride, target.first_channel + first, at, cols, target.images + at);
  }
}

// All tiles of a band times one panel.
HWY_INLINE void MultiplyPanel(const TapPlan& plan, Band& band, size_t panel, const float* b) {
  const Tiling tiling(band.from.size());
  for (const Piece& piece : plan.pieces)
    for (size_t t = 0; t < tiling.tiles; ++t)
      MultiplyTile(plan, band, tiling.begin(t), tiling.height(t), panel, piece, b);
}

HWY_NOINLINE void MultiplyBand(const TapPlan& plan, Band& band) {
  const size_t panel_floats = plan.depth * kTileCols;
  band.sums.resize(band.from.size() * kTileCols);
  // Few weights stay near, and every output is finished in one visit; many are met once per band.
  if (plan.pieces.size() == 1 && plan.panels * panel_floats <= kNearWeights) {
    const Tiling tiling(band.from.size());
    for (size_t t = 0; t < tiling.tiles; ++t)
      for (size_t panel = 0; panel < plan.panels; ++panel)
        MultiplyTile(plan, band, tiling.begin(t), tiling.height(t), panel, plan.pieces.front(),
                     plan.packed + panel * panel_floats);
    return;
  }
  for (size_t panel = 0; panel < plan.panels; ++panel)
    MultiplyPanel(plan, band, panel, plan.packed + panel * panel_floats);
}

// Without taps and epilogue there are only zeros.
HWY_NOINLINE void ClearBand(const TapPlan& plan, const Band& band) {
  for (size_t at : band.to) std::fill_n(plan.job.target.images + at, plan.job.weights.outputs, 0.0f);
}

// Fills the band with rows of outputs [row, stop), counted through the batch; their pixels may go to `copy`.
void FillBand(const TapPlan& plan, size_t row, size_t stop, float* copy, Band& band) {
  const TapSource& s = plan.job.source;
  const TapTarget& t = plan.job.target;
  const size_t row_step = s.h.step * s.row_stride(), column_step = s.w.step * s.pixel_stride();
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
}

float* Floats(Buffer& buffer, size_t count) {
  if (buffer.size() < count * sizeof(float)) buffer = Buffer::allocate(count * sizeof(float));
  return reinterpret_cast<float*>(buffer.data());
}

// Rows of outputs, band after band.
HWY_NOINLINE void RunRows(const TapPlan& plan, size_t begin, size_t end) {
  const TapSource& s = plan.job.source;
  thread_local Buffer copies;
  thread_local Band band;
  const size_t row_step = s.h.step * s.row_stride();
  const size_t rows_max = std::max<size_t>(kBandFloats / std::max<size_t>(row_step, 1), 1);
  // Separate images cost the most.
  float* copy = Floats(copies, std::min(rows_max, end - begin) * s.copy_floats(1));
  for (size_t row = begin; row < end; row += rows_max) {
    FillBand(plan, row, std::min(end, row + rows_max), copy, band);
    plan.depth == 0 && !HasEffect(plan.job.epilogue) ? ClearBand(plan, band) : MultiplyBand(plan, band);
  }
}

// Small images with many weights: all outputs at once; threads split the panels and pack their own.
void RunPanels(const TapPlan& plan, size_t rows, ThreadPool& pool) {
  thread_local Buffer copies;
  thread_local Band everything;
  Band& all = everything;
  FillBand(plan, 0, rows, Floats(copies, rows * plan.job.source.copy_floats(1)), all);
  pool.parallel_for(plan.panels, 1, [&](size_t begin, size_t end) {
    thread_local Buffer packed;
    thread_local Band band;
    float* b = Floats(packed, plan.depth * kTileCols + kPackSlack);
    band.from = all.from;
    band.to = all.to;
    band.sums.resize(band.from.size() * kTileCols);
    for (size_t panel = begin; panel < end; ++panel) {
      PackTapPanel(plan, panel, b);
      MultiplyPanel(plan, band, panel, b);
    }
  });
}

}  // namespace

void run_taps(const TapJob& job, ThreadPool& pool) {
  TapPlan plan(job);
  const size_t rows = job.batch * job.source.h.outputs;
  if (rows == 0 || job.source.w.outputs == 0) return;
  const size_t floats = plan.panels * plan.depth * kTileCols + kPackSlack;
  if (floats >= kManyWeights && rows * job.source.h.step * job.source.row_stride() <= kSmallSource)
    return RunPanels(plan, rows, pool);
  thread_local Buffer packed;
  float* to = Floats(packed, floats);
  plan.packed = to;
  if (job.weights.output_stride == 1) {
    pool.parallel_for(plan.depth, 64, [&](size_t begin, size_t end) { PackTapSteps(plan, begin, end, to); });
  } else {
    pool.parallel_for(plan.panels, 1, [&](size_t begin, size_t end) {
      for (size_t panel = begin; panel < end; ++panel)
        PackTapPanel(plan, panel, to + panel * plan.depth * kTileCols);
    });
  }
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
