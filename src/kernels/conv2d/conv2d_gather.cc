// A band of outputs at a time: its pixels fit the second cache together with one panel of weights, and each
// tile reads 14 of them through pointers. Nothing is unrolled into columns, and nothing is padded.
//
// The zeros around an image take part in the sums (conv2d.h), but a step fma(0, w, acc) with a finite w
// leaves any acc alone, except that it may turn -0 into +0. So tiles leave these steps out. A sum can then
// differ from the one with zeros only by being -0 instead of +0, and only until something that is not zero
// joins it. Hence: outputs of a tile at the border that end as -0 (a product underflowed), or weights that
// are not finite, have the tile computed once more with all zeros.
#include "kernels/conv2d/conv2d_gather.h"

#include <array>

#include "kernels/conv2d/conv2d_band.h"
#include "tensor/buffer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv2d/conv2d_gather.cc"
#include "hwy/foreach_target.h"
#include "kernels/conv2d/conv2d_checks-inl.h"
#include "kernels/conv2d/conv2d_tile-inl.h"
#include "kernels/gemm/epilogue-inl.h"
#include "kernels/gemm/gemm_pack-inl.h"

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
inline constexpr size_t kNearest = 6 << 10;    // floats of weights that leave room in the first cache
// Floats from which on packing all weights before their use would push them out of the caches, and of a
// source that is still small enough to be walked for each panel.
inline constexpr size_t kManyWeights = 1 << 20, kSmallSource = 384 << 10;

// What all threads of one job share.
struct TapPlan {
  const TapJob& job;
  std::vector<TapClass> classes;
  size_t depth;  // steps of a sum
  size_t panels;
  bool borders = false;           // some taps lie outside the image
  bool one_visit = true;          // every sum is one piece
  std::vector<float> zeros;       // a pixel outside the image
  const float* packed = nullptr;  // all panels; null: each is packed before its use
  std::vector<char> finite;       // by panel

  explicit TapPlan(const TapJob& j) : job(j), classes(tap_classes(j.source, kStepsMax)) {
    depth = job.source.h.taps.size() * job.source.w.taps.size() * job.source.channels;
    panels = (job.weights.outputs + kTileCols - 1) / kTileCols;
    for (const TapClass& kind : classes) {
      borders |= !kind.whole;
      one_visit &= kind.pieces.size() == 1;
    }
    if (borders) zeros.resize(job.source.channels);
    finite.resize(panels, 1);
  }
  size_t panel_floats() const { return depth * kTileCols; }
  bool has_edges() const { return job.weights.outputs % kTileCols != 0 || job.target.parts > 1; }
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

// Sums of a band that cannot rest in the target: those of a panel with unused columns.
struct EdgeSums {
  std::vector<float> floats;
  std::vector<float*> rows;
  void resize(size_t outputs) {
    floats.resize(outputs * kTileCols);
    rows.resize(outputs);
    for (size_t i = 0; i < outputs; ++i) rows[i] = floats.data() + i * kTileCols;
  }
};

// A band times one panel.
struct PanelJob {
  const TapPlan& plan;
  const Band& band;
  size_t panel;
  const float* b;
  float* const* to;  // by output of the band
  size_t column;     // of `to`
  bool straight;     // `to` is the target

  PanelJob(const TapPlan& p, const Band& all, size_t index, const float* packed, EdgeSums& edges)
      : plan(p), band(all), panel(index), b(packed) {
    straight = plan.job.target.parts == 1 && (panel + 1) * kTileCols <= plan.job.weights.outputs;
    to = straight ? band.to.data() : edges.rows.data();
    column = straight ? panel * kTileCols : 0;
  }
};

// All steps of a tile, those outside the image too, tap by tap.
HWY_NOINLINE void ComputeWithZeros(const PanelJob& job, size_t begin, size_t height) {
  const TapSource& s = job.plan.job.source;
  std::array<const float*, kTileHeight> rows;
  TilePrefetch<ListedRows> prefetch;
  TapRun run{0, 0};
  for (size_t y = 0; y < s.h.taps.size(); ++y)
    for (size_t x = 0; x < s.w.taps.size(); ++x, run.step += s.channels) {
      for (size_t m = 0; m < height; ++m) {
        const float* pixel = tap_pixel(job.plan.job, job.band.to[begin + m], y, x);
        rows[m] = pixel == nullptr ? job.plan.zeros.data() : pixel;
      }
      RowTileFor(height)(rows.data(), &run, 1, s.channels, job.b, job.to + begin, job.column,
                         run.step == 0 ? Chain::kFresh : Chain::kContinue, prefetch);
    }
}

// Sums of one panel go to several rows of the target.
HWY_INLINE void ScatterTile(const PanelJob& job, size_t begin, size_t height) {
  const TapTarget& target = job.plan.job.target;
  const size_t outputs = job.plan.job.weights.outputs, part = outputs / target.parts;
  const size_t first = job.panel * kTileCols, last = std::min(outputs, first + kTileCols);
  for (size_t m = 0; m < height; ++m)
    for (size_t at = first; at < last;) {
      const size_t p = at / part, count = std::min(last, (p + 1) * part) - at;
      std::copy_n(job.to[begin + m] + at - first, count,
                  job.band.to[begin + m] + p * target.width * target.channels + at % part);
      at += count;
    }
}

// What has to happen after the last step of a tile.
HWY_INLINE void FinishTile(const PanelJob& job, const TapClass& kind, size_t begin, size_t height) {
  const TapJob& all = job.plan.job;
  const TapTarget& target = all.target;
  const size_t first = job.panel * kTileCols, cols = std::min(kTileCols, all.weights.outputs - first);
  if (!kind.whole && (!job.plan.finite[job.panel] || AnyMinusZero(job.to + begin, height, job.column)))
    ComputeWithZeros(job, begin, height);
  if (all.doubt != nullptr && AnyDoubtful(job.to + begin, height, cols)) *all.doubt = true;
  for (ptrdiff_t pixel : target.clear)
    for (size_t m = 0; m < height; ++m) std::fill_n(job.band.to[begin + m] + pixel + first, cols, 0.0f);
  if (job.straight && !HasEffect(all.epilogue)) return;
  if (target.parts > 1) return ScatterTile(job, begin, height);
  for (size_t m = 0; m < height; ++m) {
    float* to = job.band.to[begin + m] + first;
    FinishRow(all.epilogue, job.to[begin + m] + job.column, target.first_channel + first,
              static_cast<size_t>(to - target.images), cols, to);
  }
}

// One piece of the sums of a tile.
HWY_INLINE void MultiplyTile(const PanelJob& job, const TapClass& kind, const TapPiece& piece, size_t begin,
                             size_t height, TilePrefetch<ListedRows>& prefetch) {
  RowTileFor(height)(job.band.from.data() + begin, piece.runs.data(), piece.runs.size(), piece.run, job.b,
                     job.to + begin, job.column,
                     &piece == &kind.pieces.front() ? Chain::kFresh : Chain::kContinue, prefetch);
  if (&piece == &kind.pieces.back()) FinishTile(job, kind, begin, height);
}

// Outputs from `begin` on, which the next tile writes.
HWY_INLINE PrefetchRows<ListedRows> PrefetchOutputs(const PanelJob& job, size_t begin, size_t pace) {
  const size_t count = std::min(kTileHeight, job.band.to.size() - begin);
  return {{job.to + begin, static_cast<ptrdiff_t>(job.column)}, count, kTileCols, pace};
}
// Pixels that the next tile may be the first to read: those of its last taps.
HWY_INLINE PrefetchRows<ListedRows> PrefetchPixels(const PanelJob& job, const TapPiece& piece, size_t begin,
                                                   size_t pace) {
  const size_t count = std::min(kTileHeight, job.band.from.size() - begin);
  if (piece.runs.empty()) return {};
  return {{job.band.from.data() + begin, piece.runs.back().from}, count, job.plan.job.source.channels, pace};
}
size_t PaceOfPixels(const TapPlan& plan, size_t steps) {
  return PaceOf(kTileHeight * ((plan.job.source.channels + kPrefetchFloats - 1) / kPrefetchFloats), steps);
}

// All tiles of a band times one panel. `operand` is needed after it.
HWY_INLINE void MultiplyPanel(const PanelJob& job, PrefetchRows<ListedRows> operand) {
  TilePrefetch<ListedRows> prefetch;
  prefetch.operand = operand;
  for (const Band::Group& group : job.band.groups) {
    const Tiling tiling(group.end - group.begin);
    for (const TapPiece& piece : group.kind->pieces) {
      const size_t steps = piece.runs.size() * piece.run;
      const size_t pace = PaceOf(kTileHeight, steps), pixel_pace = PaceOfPixels(job.plan, steps);
      for (size_t t = 0; t < tiling.tiles; ++t) {
        const size_t begin = group.begin + tiling.begin(t), next = begin + tiling.height(t);
        prefetch.outputs = PrefetchOutputs(job, next, pace);
        if (operand.count == 0) prefetch.operand = PrefetchPixels(job, piece, next, pixel_pace);
        MultiplyTile(job, *group.kind, piece, begin, tiling.height(t), prefetch);
      }
    }
  }
}

// All panels for one tile after the other.
HWY_INLINE void MultiplyTiles(const std::vector<PanelJob>& jobs, const Band& band) {
  TilePrefetch<ListedRows> prefetch;
  for (const Band::Group& group : band.groups) {
    const Tiling tiling(group.end - group.begin);
    const TapPiece& piece = group.kind->pieces.front();
    const size_t steps = piece.runs.size() * piece.run;
    const size_t pace = PaceOf(kTileHeight, steps);
    const size_t pixel_pace = PaceOfPixels(jobs.front().plan, jobs.size() * steps);
    const bool near = jobs.size() * steps * kTileCols <= kNearest;
    for (size_t t = 0; t < tiling.tiles; ++t) {
      const size_t begin = group.begin + tiling.begin(t), height = tiling.height(t);
      prefetch.operand = PrefetchPixels(jobs.front(), piece, begin + height, pixel_pace);
      prefetch.operand.near = near;
      for (size_t panel = 0; panel < jobs.size(); ++panel) {
        const bool last = panel + 1 == jobs.size();
        prefetch.outputs = PrefetchOutputs(jobs[last ? 0 : panel + 1], last ? begin + height : begin, pace);
        prefetch.outputs.near = near;
        MultiplyTile(jobs[panel], *group.kind, piece, begin, height, prefetch);
      }
    }
  }
}

HWY_NOINLINE void MultiplyBand(const TapPlan& plan, const Band& band, EdgeSums& edges) {
  if (plan.has_edges()) edges.resize(band.to.size());
  std::vector<PanelJob> jobs;
  for (size_t panel = 0; panel < plan.panels; ++panel)
    jobs.emplace_back(plan, band, panel, plan.packed + panel * plan.panel_floats(), edges);
  // Few weights stay near, and every output is finished in one visit; many are met once per band.
  if (plan.one_visit && plan.panels * plan.panel_floats() <= kNearWeights) return MultiplyTiles(jobs, band);
  const size_t steps = (band.to.size() / kTileHeight + 1) * plan.depth;
  for (const PanelJob& job : jobs) {
    // The first panel meets new pixels; each of the others prefetches the next one.
    const float* next = jobs[std::min(job.panel + 1, plan.panels - 1)].b;
    const PrefetchRows<ListedRows> weights{{&next, 0}, 1, plan.panel_floats()};
    MultiplyPanel(job, job.panel == 0 ? PrefetchRows<ListedRows>{} : weights.Within(steps));
  }
}

// Without taps and epilogue there are only zeros.
HWY_NOINLINE void ClearBand(const TapPlan& plan, const Band& band) {
  for (float* to : band.to) std::fill_n(to, plan.job.weights.outputs, 0.0f);
}

float* Floats(Buffer& buffer, size_t count) {
  if (buffer.size() < count * sizeof(float)) buffer = Buffer::allocate(count * sizeof(float));
  return reinterpret_cast<float*>(buffer.data());
}

// Rows of outputs, band after band.
HWY_NOINLINE void RunRows(const TapPlan& plan, size_t begin, size_t end) {
  thread_local Band band;
  thread_local EdgeSums edges;
  const TapSource& s = plan.job.source;
  const size_t row_step = s.h.step * s.w.source * s.channels;
  const size_t rows_max = std::max<size_t>(kBandFloats / std::max<size_t>(row_step, 1), 1);
  for (size_t row = begin; row < end; row += rows_max) {
    band.fill(plan.job, plan.classes, row, std::min(end, row + rows_max));
    plan.depth == 0 && !HasEffect(plan.job.epilogue) ? ClearBand(plan, band)
                                                     : MultiplyBand(plan, band, edges);
  }
}

// Memory that PackTapPanel() reads: rows of `width` floats.
size_t RowsOfPanel(const TapPlan& plan, size_t panel, std::vector<const float*>& rows) {
  const TapWeights& w = plan.job.weights;
  const TapSource& s = plan.job.source;
  const size_t first = panel * kTileCols, cols = std::min(kTileCols, w.outputs - first);
  const float* data = w.data + first * w.output_stride;
  rows.clear();
  if (w.output_stride != 1) {
    for (size_t c = 0; c < cols; ++c) rows.push_back(data + c * w.output_stride);
    return plan.depth;
  }
  for (size_t ky : s.h.kernel)
    for (size_t kx : s.w.kernel)
      for (size_t c = 0; c < s.channels; ++c)
        rows.push_back(data + (ky * w.kernel_w + kx) * w.tap_stride + c * w.channel_stride);
  return cols;
}

// Small images with many weights: all outputs at once; threads split the panels and pack their own.
void RunPanels(TapPlan& plan, size_t rows, ThreadPool& pool) {
  thread_local Band everything;
  Band& all = everything;
  all.fill(plan.job, plan.classes, 0, rows);
  pool.parallel_for(plan.panels, 1, [&](size_t begin, size_t end) {
    thread_local Buffer packed;
    thread_local EdgeSums edges;
    thread_local std::vector<const float*> next_rows;
    float* b = Floats(packed, plan.panel_floats() + kPackSlack);
    if (plan.has_edges()) edges.resize(all.to.size());
    for (size_t panel = begin; panel < end; ++panel) {
      PackTapPanel(plan, panel, b);
      if (plan.borders) plan.finite[panel] = AllFinite(b, plan.panel_floats());
      const size_t width = RowsOfPanel(plan, std::min(panel + 1, plan.panels - 1), next_rows);
      const PrefetchRows<ListedRows> weights{{next_rows.data(), 0}, next_rows.size(), width};
      MultiplyPanel(PanelJob(plan, all, panel, b, edges),
                    weights.Within((all.to.size() / kTileHeight + 1) * plan.depth));
    }
  });
}

}  // namespace

void run_taps(const TapJob& job, ThreadPool& pool) {
  TapPlan plan(job);
  const size_t rows = job.batch * job.source.h.outputs;
  if (rows == 0 || job.source.w.outputs == 0) return;
  const size_t floats = plan.panels * plan.panel_floats() + kPackSlack;
  if (floats >= kManyWeights &&
      rows * job.source.h.step * job.source.w.source * job.source.channels <= kSmallSource)
    return RunPanels(plan, rows, pool);
  thread_local Buffer packed;
  float* to = Floats(packed, floats);
  plan.packed = to;
  const bool by_steps = job.weights.output_stride == 1;
  if (by_steps)
    pool.parallel_for(plan.depth, 64, [&](size_t begin, size_t end) { PackTapSteps(plan, begin, end, to); });
  if (!by_steps || plan.borders)
    pool.parallel_for(plan.panels, 1, [&](size_t begin, size_t end) {
      for (size_t panel = begin; panel < end; ++panel) {
        float* at = to + panel * plan.panel_floats();
        if (!by_steps) PackTapPanel(plan, panel, at);
        if (plan.borders) plan.finite[panel] = AllFinite(at, plan.panel_floats());
      }
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
