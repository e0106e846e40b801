// Sums rest transposed, [taps * channels][outputs], so that outputs are vector lanes: a tile is up to 14
// neighbouring channels (or taps of few channels) by 32 outputs. A block of positions packs some panels of
// dy, then tile by tile the pixels it needs. Threads split the tiles; each walks all positions.
//
// Few positions would not pay for transposing the sums back. Where whole panels of channels allow it, lanes
// are then channels, rows are outputs, and sums rest in the gradient itself.
#include "kernels/conv2d/conv2d_weights.h"

#include <algorithm>

#include "kernels/simd/position_block.h"
#include "tensor/buffer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv2d/conv2d_weights.cc"
#include "hwy/foreach_target.h"
#include "kernels/gemm/gemm_pack-inl.h"
#include "kernels/gemm/gemm_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
void run_sums(const TapSums&, ThreadPool&) {}  // the plain loops are called instead
#else

namespace {

inline constexpr size_t kWindowFloats = 128 << 10;  // of x at a time
inline constexpr size_t kPanelsAtOnce = 16;         // of dy, packed together: half a megabyte with AVX-512
inline constexpr size_t kOutputsAtOnce = 512;       // the same for lanes of channels
inline constexpr size_t kFewPositions = 4096;

// Rows [row, row + height) of the transposed sums, which read x at `offset` from a position's lowest tap.
struct SumTile {
  size_t row, height;
  ptrdiff_t offset;
};

struct SumPlan {
  const TapSums& job;
  TapSource::Offsets offsets;
  std::vector<SumTile> tiles;
  size_t rows, columns;  // of the transposed sums; whole panels
  size_t positions, width;
  size_t row_step, column_step;  // of x, from output to output
  // Many outputs pay for packing a tile's pixels; pixels far apart would fight for lines of the first cache.
  bool packs_pixels;
  bool packs_dy;  // for many tiles; few read it where it stands
  bool channel_lanes;
  float* sums = nullptr;

  SumPlan(const TapSums& j, size_t threads) : job(j), offsets(j.source.offsets()) {
    rows = offsets.at.size() * offsets.run;
    columns = (job.outputs + kTileCols - 1) / kTileCols * kTileCols;
    width = job.source.w.outputs;
    positions = job.batch * job.source.h.outputs * width;
    row_step = job.source.h.step * job.source.row_stride();
    column_step = job.source.w.step * job.source.pixel_stride();
    packs_pixels = job.outputs > 128 || column_step >= 256;
    // A few more tiles than needed, if the threads then have equally many.
    size_t parts = Tiling(offsets.run).tiles;
    for (size_t more = parts; more < parts + threads && offsets.run / more >= kTileHeight / 2; ++more)
      if (offsets.at.size() * more % threads == 0) {
        parts = more;
        break;
      }
    const Tiling tiling(offsets.run, parts);
    for (size_t o = 0; o < offsets.at.size(); ++o)
      for (size_t t = 0; t < tiling.tiles; ++t)
        tiles.push_back({o * offsets.run + tiling.begin(t), tiling.height(t),
                         offsets.at[o] + static_cast<ptrdiff_t>(tiling.begin(t))});
    packs_dy = tiles.size() > 12 * threads || job.outputs % kTileCols != 0 || job.dy_stride >= 512;
    channel_lanes =
        positions <= kFewPositions && job.source.channels % kTileCols == 0 && job.outputs >= 2 * kTileHeight;
  }
};

// Positions [begin, end) as stretches along rows of outputs; `window` finds the pixels of a row of outputs.
template <class Window>
HWY_INLINE void FindStretches(const SumPlan& plan, size_t begin, size_t end, Window window,
                              std::vector<Stretch>& to) {
  to.clear();
  for (size_t position = begin; position < end;) {
    const size_t row = position / plan.width, column = position % plan.width;
    const size_t length = std::min(end - position, plan.width - column);
    to.push_back({window(row) + column * plan.column_step, length});
    position += length;
  }
}

// Memory of one thread.
struct SumScratch {
  Buffer copies, dy, x;
  std::vector<const float*> rows;
  std::vector<Stretch> stretches, moved;
};
float* Floats(Buffer& buffer, size_t count) {
  if (buffer.size() < count * sizeof(float)) buffer = Buffer::allocate(count * sizeof(float));
  return reinterpret_cast<float*>(buffer.data());
}

// The pixels of one tile: positions from `begin` on, `height` floats each. Whole vectors are read where more
// floats follow: behind any of the positions but the last 32, one float per position at least.
HWY_INLINE void PackPixels(const SumPlan& plan, const std::vector<Stretch>& stretches, size_t begin,
                           const SumTile& tile, float* to) {
  const size_t open_end = plan.positions < 32 ? 0 : plan.positions - 32;
  for (const Stretch& s : stretches) {
    const float* from = s.data + tile.offset;
    const size_t open = std::min(s.length, open_end > begin ? open_end - begin : 0);
    PackColumns(from, plan.column_step, tile.height, 2 * kTileHeight, open, to, tile.height);
    PackColumns(from + open * plan.column_step, plan.column_step, tile.height, tile.height, s.length - open,
                to + open * tile.height, tile.height);
    to += s.length * tile.height;
    begin += s.length;
  }
}

// dy of the block from position `begin` on, outputs [first, last).
PrefetchRows<StridedRows> PrefetchDy(const SumPlan& plan, size_t begin, size_t first, size_t last) {
  const size_t count = std::min(kPositionBlock, plan.positions - begin);
  return {{plan.job.dy + begin * plan.job.dy_stride + first, plan.job.dy_stride}, count, last - first};
}
// Its pixels, where positions read neighbours. (Others are copied or near.)
PrefetchRows<StridedRows> PrefetchPixels(const SumPlan& plan, size_t begin) {
  const TapSource& s = plan.job.source;
  const bool straight = plan.offsets.at.size() == 1 && s.direct() && s.w.outputs == s.w.source &&
                        s.h.outputs == s.h.source && s.channels == s.image_channels;
  if (!straight) return {};
  const size_t count = std::min(kPositionBlock, plan.positions - begin);
  return {{s.images + begin * s.channels, s.channels}, count, s.channels};
}

// One block of positions joins the sums of some tiles.
HWY_NOINLINE void SumBlock(const SumPlan& plan, size_t begin, size_t end, size_t tile_begin, size_t tile_end,
                           SumScratch& scratch) {
  const TapSums& job = plan.job;
  const size_t depth = end - begin, pace = PaceOf(kTileHeight, depth);
  const Chain chain = begin == 0 && !job.accumulate ? Chain::kFirst : Chain::kAdd;
  TilePrefetch<StridedRows> prefetch;
  float* dy = Floats(scratch.dy, kPanelsAtOnce * kPositionBlock * kTileCols);
  float* x = Floats(scratch.x, kPositionBlock * kTileHeight + kPackSlack);
  for (size_t group = 0; group < job.outputs; group += kPanelsAtOnce * kTileCols) {
    const size_t group_end = std::min(job.outputs, group + kPanelsAtOnce * kTileCols);
    for (size_t first = group; plan.packs_dy && first < group_end; first += kTileCols) {
      const size_t cols = std::min(kTileCols, job.outputs - first);
      float* panel = dy + (first - group) * kPositionBlock;
      PackColumns(job.dy + begin * job.dy_stride + first, job.dy_stride, cols, job.outputs - first, depth,
                  panel, kTileCols);
      PadSteps(panel, cols, kTileCols, depth);
    }
    const size_t steps = (tile_end - tile_begin) * ((group_end - group + kTileCols - 1) / kTileCols) * depth;
    prefetch.operand = PrefetchDy(plan, end, group, group_end).Within(steps);
    prefetch.other = PrefetchPixels(plan, end).Within(steps);
    for (size_t i = tile_begin; i < tile_end; ++i) {
      const SumTile& tile = plan.tiles[i];
      scratch.moved.clear();
      if (plan.packs_pixels) {
        PackPixels(plan, scratch.stretches, begin, tile, x);
        scratch.moved.push_back({x, depth});
      } else {
        for (const Stretch& s : scratch.stretches) scratch.moved.push_back({s.data + tile.offset, s.length});
      }
      for (size_t first = group; first < group_end; first += kTileCols) {
        const bool last = first + kTileCols >= group_end;
        const SumTile& next = plan.tiles[last && i + 1 < tile_end ? i + 1 : i];
        prefetch.outputs = {
            {plan.sums + next.row * plan.columns + (last ? group : first + kTileCols), plan.columns},
            next.height,
            kTileCols,
            pace};
        StretchTileFor(tile.height)(
            scratch.moved.data(), scratch.moved.size(), plan.packs_pixels ? tile.height : plan.column_step,
            plan.packs_dy ? dy + (first - group) * kPositionBlock : job.dy + begin * job.dy_stride + first,
            plan.packs_dy ? kTileCols : job.dy_stride, plan.sums + tile.row * plan.columns + first,
            plan.columns, chain, prefetch);
      }
    }
  }
}

// The same with lanes of channels: panels [panel_begin, panel_end) of kTileCols of them.
HWY_NOINLINE void SumBlockByChannels(const SumPlan& plan, size_t begin, size_t end, size_t panel_begin,
                                     size_t panel_end, SumScratch& scratch) {
  const TapSums& job = plan.job;
  const size_t depth = end - begin, pace = PaceOf(kTileHeight, depth);
  const Chain chain = begin == 0 && !job.accumulate ? Chain::kFirst : Chain::kAdd;
  constexpr size_t kSlot = kPositionBlock * kTileHeight + kPackSlack;
  float* x = Floats(scratch.x, kPositionBlock * kTileCols);
  float* dy = Floats(scratch.dy, Tiling(kOutputsAtOnce).tiles * kSlot);
  TilePrefetch<StridedRows> prefetch;
  for (size_t group = 0; group < job.outputs; group += kOutputsAtOnce) {
    const Tiling tiling(std::min(kOutputsAtOnce, job.outputs - group));
    for (size_t t = 0; t < tiling.tiles; ++t) {
      const size_t first = group + tiling.begin(t);
      PackColumns(job.dy + begin * job.dy_stride + first, job.dy_stride, tiling.height(t),
                  job.outputs - first, depth, dy + t * kSlot, tiling.height(t));
    }
    const size_t steps = (panel_end - panel_begin) * tiling.tiles * depth;
    prefetch.operand =
        PrefetchDy(plan, end, group, group + std::min(kOutputsAtOnce, job.outputs - group)).Within(steps);
    prefetch.other = PrefetchPixels(plan, end).Within(steps);
    for (size_t panel = panel_begin; panel < panel_end; ++panel) {
      const size_t row = panel * kTileCols;
      const ptrdiff_t offset =
          plan.offsets.at[row / plan.offsets.run] + static_cast<ptrdiff_t>(row % plan.offsets.run);
      float* to = x;
      for (const Stretch& s : scratch.stretches) {
        PackColumns(s.data + offset, plan.column_step, kTileCols, kTileCols, s.length, to, kTileCols);
        to += s.length * kTileCols;
      }
      for (size_t t = 0; t < tiling.tiles; ++t) {
        const bool last = t + 1 == tiling.tiles;
        const size_t next = last ? 0 : t + 1, next_row = last ? row + kTileCols : row;
        prefetch.outputs = {
            {job.dw + (group + tiling.begin(next)) * plan.rows + std::min(next_row, plan.rows - kTileCols),
             plan.rows},
            tiling.height(next),
            kTileCols,
            pace};
        const Stretch stretch{dy + t * kSlot, depth};
        StretchTileFor(tiling.height(t))(&stretch, 1, tiling.height(t), x, kTileCols,
                                         job.dw + (group + tiling.begin(t)) * plan.rows + row, plan.rows,
                                         chain, prefetch);
      }
    }
  }
}

// All positions for some tiles, or panels of channels: as many blocks at a time as have their pixels in the
// second cache.
HWY_NOINLINE void SumTiles(const SumPlan& plan, size_t tile_begin, size_t tile_end) {
  thread_local SumScratch scratch;
  const TapSource& s = plan.job.source;
  const size_t height = s.h.outputs;
  const size_t row_floats = std::max<size_t>(plan.row_step, 1);
  const size_t rows_max = std::max<size_t>(kWindowFloats / row_floats, 1);
  const size_t blocks = std::max<size_t>(rows_max * plan.width / kPositionBlock, 1);
  for (size_t at = 0; at < plan.positions; at += blocks * kPositionBlock) {
    const size_t end = std::min(plan.positions, at + blocks * kPositionBlock);
    const size_t first_row = at / plan.width, last_row = (end - 1) / plan.width;
    float* copy = Floats(scratch.copies, (last_row - first_row + 1) * s.copy_floats(1) + kPackSlack);
    scratch.rows.clear();
    for (size_t row = first_row; row <= last_row;) {
      const size_t rows = std::min(last_row + 1 - row, height - row % height);
      const float* window = s.window(row / height, row % height, rows, copy);
      for (size_t i = 0; i < rows; ++i) scratch.rows.push_back(window + i * plan.row_step);
      copy += s.copy_floats(rows);
      row += rows;
    }
    for (size_t begin = at; begin < end; begin += kPositionBlock) {
      const size_t block_end = std::min(end, begin + kPositionBlock);
      FindStretches(
          plan, begin, block_end, [&](size_t row) { return scratch.rows[row - first_row]; },
          scratch.stretches);
      (plan.channel_lanes ? SumBlockByChannels : SumBlock)(plan, begin, block_end, tile_begin, tile_end,
                                                           scratch);
    }
  }
}

// Outputs [begin, end) of the sums go to dw.
HWY_NOINLINE void TurnSums(const SumPlan& plan, size_t begin, size_t end) {
  float* dw = plan.job.dw;
  size_t row = 0;
  for (; row + kVF <= plan.rows; row += kVF) {
    const auto from = [&](size_t r) { return plan.sums + (row + r) * plan.columns; };
    size_t o = begin;
    for (; o + 4 <= end; o += 4) PackFourSteps(from, 0, kVF - 1, o, dw + o * plan.rows + row, plan.rows);
    for (; o < end; ++o)
      for (size_t r = 0; r < kVF; ++r) dw[o * plan.rows + row + r] = from(r)[o];
  }
  for (; row < plan.rows; ++row)
    for (size_t o = begin; o < end; ++o) dw[o * plan.rows + row] = plan.sums[row * plan.columns + o];
}

}  // namespace

void run_sums(const TapSums& job, ThreadPool& pool) {
  SumPlan plan(job, pool.size());
  if (plan.channel_lanes)
    return pool.parallel_for(plan.rows / kTileCols, 1,
                             [&](size_t begin, size_t end) { SumTiles(plan, begin, end); });
  thread_local Buffer buffer;
  plan.sums = Floats(buffer, plan.rows * plan.columns + kPackSlack);
  float* dw = job.dw;
  const size_t rows = plan.rows, columns = plan.columns;
  pool.parallel_for(plan.tiles.size(), 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; job.accumulate && i < end; ++i) {
      const SumTile& tile = plan.tiles[i];
      PackRows([&](size_t o) { return dw + o * rows + tile.row; }, job.outputs, tile.height,
               plan.sums + tile.row * columns, columns);
    }
    SumTiles(plan, begin, end);
  });
  pool.parallel_for(job.outputs, 4, [&](size_t begin, size_t end) { TurnSums(plan, begin, end); });
}
#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(run_sums);
}  // namespace

void sum_taps(const TapSums& job, ThreadPool& pool) { HWY_DYNAMIC_DISPATCH(run_sums)(job, pool); }

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
