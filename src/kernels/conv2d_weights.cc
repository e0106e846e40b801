// Sums rest transposed, [taps * channels][outputs], so that outputs are vector lanes and the pixels of x are
// read where they stand: a tile is 14 neighbouring channels (or taps of few channels) by 32 outputs. Threads
// split the tiles; each walks all positions.
#include "kernels/conv2d_weights.h"

#include <algorithm>

#include "kernels/position_block.h"
#include "tensor/buffer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv2d_weights.cc"
#include "hwy/foreach_target.h"
#include "kernels/gemm_pack-inl.h"
#include "kernels/gemm_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
void run_sums(const TapSums&, ThreadPool&) {}  // the plain loops are called instead
#else

namespace {

inline constexpr size_t kWindowFloats = 128 << 10;  // of x at a time

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
  float* sums = nullptr;

  explicit SumPlan(const TapSums& j) : job(j), offsets(j.source.offsets()) {
    rows = offsets.at.size() * offsets.run;
    columns = (job.outputs + kTileCols - 1) / kTileCols * kTileCols;
    width = job.source.w.outputs;
    positions = job.batch * job.source.h.outputs * width;
    row_step = job.source.h.step * job.source.row_stride();
    column_step = job.source.w.step * job.source.pixel_stride();
    const Tiling tiling(offsets.run);
    for (size_t o = 0; o < offsets.at.size(); ++o)
      for (size_t t = 0; t < tiling.tiles; ++t)
        tiles.push_back({o * offsets.run + tiling.begin(t), tiling.height(t),
                         offsets.at[o] + static_cast<ptrdiff_t>(tiling.begin(t))});
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
  Buffer copies, dy;
  std::vector<const float*> rows;
  std::vector<Stretch> stretches, moved;
};
inline float* Floats(Buffer& buffer, size_t count) {
  if (buffer.size() < count * sizeof(float)) buffer = Buffer::allocate(count * sizeof(float));
  return reinterpret_cast<float*>(buffer.data());
}

// One block of positions joins the sums of some tiles.
HWY_NOINLINE void SumBlock(const SumPlan& plan, size_t begin, size_t end, size_t tile_begin, size_t tile_end,
                           SumScratch& scratch) {
  const TapSums& job = plan.job;
  const size_t depth = end - begin;
  float* dy = Floats(scratch.dy, kPositionBlock * kTileCols + kPackSlack);
  for (size_t first = 0; first < job.outputs; first += kTileCols) {
    const size_t cols = std::min(kTileCols, job.outputs - first);
    PackColumns(job.dy + begin * job.dy_stride + first, job.dy_stride, cols, job.outputs - first, depth, dy,
                kTileCols);
    PadSteps(dy, cols, kTileCols, depth);
    for (size_t i = tile_begin; i < tile_end; ++i) {
      const SumTile& tile = plan.tiles[i];
      scratch.moved.clear();
      for (const Stretch& s : scratch.stretches) scratch.moved.push_back({s.data + tile.offset, s.length});
      StretchTileFor(tile.height)(scratch.moved.data(), scratch.moved.size(), plan.column_step, dy,
                                  plan.sums + tile.row * plan.columns + first, plan.columns, Chain::kAdd);
    }
  }
}

// All positions for some tiles: as many blocks at a time as have their pixels in the second cache.
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
    float* copy = Floats(scratch.copies, (last_row - first_row + 1) * s.copy_floats(1));
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
      SumBlock(plan, begin, block_end, tile_begin, tile_end, scratch);
    }
  }
}

}  // namespace

void run_sums(const TapSums& job, ThreadPool& pool) {
  SumPlan plan(job);
  thread_local Buffer buffer;
  plan.sums = Floats(buffer, plan.rows * plan.columns + kPackSlack);
  float* dw = job.dw;
  const size_t rows = plan.rows, columns = plan.columns;
  pool.parallel_for(plan.tiles.size(), 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const SumTile& tile = plan.tiles[i];
      for (size_t row = tile.row; row < tile.row + tile.height; ++row)
        for (size_t o = 0; o < columns; ++o)
          plan.sums[row * columns + o] = job.accumulate && o < job.outputs ? dw[o * rows + row] : 0.0f;
    }
    SumTiles(plan, begin, end);
  });
  pool.parallel_for(job.outputs, 1, [&](size_t begin, size_t end) {
    for (size_t o = begin; o < end; ++o)
      for (size_t row = 0; row < rows; ++row) dw[o * rows + row] = plan.sums[row * columns + o];
  });
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
