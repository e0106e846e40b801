// Float panels times many rows: blocks of columns, packed so that the inner loop reads two straight lines.
// Sums rest in y between blocks; a float stored and loaded is the same float. So do the sums of shards whose
// neighbours are not there yet: shard i of a subtree has as many waiting before it as i has ones, the first
// of them in y, the others in levels beside it.
#include <algorithm>
#include <bit>

#include "kernels/tiles/matmul_job.h"
#include "tensor/buffer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/panels/float_grid.cc"
#include "hwy/foreach_target.h"
#include "kernels/panels/float_grid-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

namespace {

// Rows of activations and panels that one inner loop holds in registers.
#if HWY_TARGET == HWY_AVX3_DL
constexpr size_t kGridRows = 14, kGridPanels = 2;
#elif HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_NEON
constexpr size_t kGridRows = 6, kGridPanels = 1;
#else
constexpr size_t kGridRows = 2, kGridPanels = 1;
#endif

constexpr size_t kDepth = 256;     // columns per block: two panels of them as floats are 32 KiB
constexpr size_t kPassTiles = 12;  // tiles of rows that share the widened weights

// Prefetches the weights that will be widened next while the first tile multiplies.
struct GridPrefetch {
  const std::byte* from[kGridPanels] = {};  // null: nothing is prefetched
  size_t column_bytes = 0;

  HWY_INLINE void Column(size_t k) const {
    if (from[0] == nullptr || k * column_bytes % 64 != 0) return;
    BF_UNROLL
    for (size_t n = 0; n < kGridPanels; ++n) __builtin_prefetch(from[n] + k * column_bytes, 0, 2);
  }
};

constexpr size_t kLevels = 4;  // y, and three beside it for eight shards
static_assert(kShardsMax == 8);

// Where the sums of a tile come from and where they go, panel by panel.
template <size_t kPanels>
struct GridSums {
  TileOut levels[kLevels][kPanels];
  size_t level;  // of this shard
  size_t folds;  // behind its last block: waiting sums that it is added to, from the level below downwards
  bool first;    // block of the shard: sums start from zero
  bool finish;   // the last fold ends the tree of a subtree
};

template <size_t kRows, size_t kPanels>
HWY_NOINLINE void GridTile(const float* acts, const float* weights, size_t depth,
                           const GridSums<kPanels>& sums, size_t rows, const GridPrefetch& prefetch) {
  VF acc[kRows][kPanels][kParts];
  const TileOut* rest = sums.levels[sums.level];
  BF_UNROLL
  for (size_t m = 0; m < kRows; ++m) BF_UNROLL
  for (size_t n = 0; n < kPanels; ++n) BF_UNROLL
  for (size_t p = 0; p < kParts; ++p)
    acc[m][n][p] = sums.first || m >= rows ? hn::Zero(DF()) : rest[n].Load(m, p);
  for (size_t k = 0; k < depth; ++k) {
    prefetch.Column(k);
    VF w[kPanels][kParts];
    BF_UNROLL
    for (size_t n = 0; n < kPanels; ++n) BF_UNROLL
    for (size_t p = 0; p < kParts; ++p)
      w[n][p] = hn::Load(DF(), weights + (k * kPanels + n) * kPanelRows + p * kVF);
    BF_UNROLL
    for (size_t m = 0; m < kRows; ++m) {
      const VF a = hn::Set(DF(), acts[k * kRows + m]);
      BF_UNROLL
      for (size_t n = 0; n < kPanels; ++n) BF_UNROLL
      for (size_t p = 0; p < kParts; ++p) acc[m][n][p] = Fma(a, w[n][p], acc[m][n][p]);
    }
  }
  for (size_t fold = 0; fold < sums.folds; ++fold) {
    rest = sums.levels[sums.level - 1 - fold];
    BF_UNROLL
    for (size_t m = 0; m < kRows; ++m) BF_UNROLL
    for (size_t n = 0; n < kPanels; ++n) BF_UNROLL
    for (size_t p = 0; p < kParts; ++p)
      if (m < rows) acc[m][n][p] = hn::Add(rest[n].Load(m, p), acc[m][n][p]);
  }
  BF_UNROLL
  for (size_t m = 0; m < kRows; ++m) BF_UNROLL
  for (size_t n = 0; n < kPanels; ++n) BF_UNROLL
  for (size_t p = 0; p < kParts; ++p)
    if (m < rows) rest[n].Store(m, p, sums.finish ? TreeResult(acc[m][n][p]) : acc[m][n][p]);
}

// The lowest tile that holds `height` rows.
template <size_t kPanels>
struct Grid {
  using Tile = void (*)(const float*, const float*, size_t, const GridSums<kPanels>&, size_t,
                        const GridPrefetch&);
  size_t rows;
  Tile tile;
  static Grid For(size_t height) {
#if HWY_TARGET == HWY_AVX3_DL
    if (height <= 8) return {8, GridTile<8, kPanels>};
    if (height <= 10) return {10, GridTile<10, kPanels>};
    if (height <= 12) return {12, GridTile<12, kPanels>};
#endif
    return {kGridRows, GridTile<kGridRows, kPanels>};
  }
};

struct GridScratch {
  Buffer acts = Buffer::allocate(kPassTiles * kGridRows * kDepth * sizeof(float));
  Buffer weights = Buffer::allocate(kGridPanels * kPanelRows * kDepth * sizeof(float));
  Buffer levels;  // [kLevels - 1][rows of a pass][outputs of the job], once a job has shards

  float* LevelsFor(const MatmulJob& job) {
    const auto& counts = job.cuts.shards;
    if (*std::max_element(counts.begin(), counts.begin() + job.cuts.subtree_count) == 1) return nullptr;
    const size_t outputs = (job.panel_end - job.panel_begin) * kPanelRows;
    const size_t bytes = (kLevels - 1) * kPassTiles * kGridRows * outputs * sizeof(float);
    if (levels.size() < bytes) levels = Buffer::allocate(bytes);
    return reinterpret_cast<float*>(levels.data());
  }
};

// Rows [row0, row1) of one pass, one block of the columns of a shard.
struct GridPass {
  const MatmulJob& job;
  const ShardWalk& shard;
  size_t row0, row1, height;
  size_t k0, depth;
  const float* acts;
  float* weights;
  float* levels;

  // The sums of one tile.
  template <size_t kPanels>
  GridSums<kPanels> Sums(size_t row, size_t panel_index) const {
    const size_t outputs = (job.panel_end - job.panel_begin) * kPanelRows;
    const bool ends = k0 + depth == shard.end();
    GridSums<kPanels> sums;
    sums.level = static_cast<size_t>(std::popcount(shard.shard()));
    sums.folds = ends ? static_cast<size_t>(std::countr_one(shard.shard())) : 0;
    sums.first = k0 == shard.begin();
    sums.finish = ends && shard.last() && sums.folds > 0;
    for (size_t n = 0; n < kPanels; ++n) {
      sums.levels[0][n] = OutOf(job, row, panel_index + n).Subtree(shard.subtree());
      // A pass has at most kPassTiles * kGridRows rows.
      for (size_t level = 1; level <= sums.level; ++level)
        sums.levels[level][n] = {levels + ((level - 1) * kPassTiles * kGridRows + row - row0) * outputs +
                                     (panel_index + n - job.panel_begin) * kPanelRows,
                                 outputs, kPanelRows, 0};
    }
    return sums;
  }
};

template <size_t kPanels>
HWY_NOINLINE void GridPanels(const GridPass& pass, const WidenedType& type, size_t panel_index) {
  type.widen(pass.job, panel_index, kPanels, pass.k0, pass.depth, pass.weights);
  const auto tile = Grid<kPanels>::For(pass.height).tile;
  // Behind the last panels come the first ones of the next columns.
  const MatmulJob& job = pass.job;
  const bool last = panel_index + kPanels >= job.panel_end;
  const size_t next = last ? job.panel_begin : panel_index + kPanels;
  GridPrefetch prefetch{.from = {}, .column_bytes = kPanelRows * type.value_bytes};
  for (size_t n = 0; n < kGridPanels; ++n)
    prefetch.from[n] = job.panels + std::min(next + n, job.panel_end - 1) * job.panel_bytes +
                       (pass.k0 + (last ? pass.depth : 0)) * prefetch.column_bytes;
  for (size_t row = pass.row0; row < pass.row1; row += pass.height)
    tile(pass.acts + (row - pass.row0) * kDepth, pass.weights, pass.depth,
         pass.Sums<kPanels>(row, panel_index), std::min(pass.height, pass.row1 - row),
         row == pass.row0 ? prefetch : GridPrefetch());
}

// All columns of a shard for the rows of a pass.
HWY_NOINLINE void GridShard(GridPass pass, const WidenedType& type, float* acts) {
  const MatmulJob& job = pass.job;
  do {  // once even without columns: sums of nothing are zeros
    pass.depth = std::min(kDepth, pass.shard.end() - pass.k0);
    for (size_t row = pass.row0; row < pass.row1; row += pass.height)
      PackActs(job, row, pass.height, pass.k0, pass.depth, acts + (row - pass.row0) * kDepth);
    size_t panel_index = job.panel_begin;
    for (; panel_index + kGridPanels <= job.panel_end; panel_index += kGridPanels)
      GridPanels<kGridPanels>(pass, type, panel_index);
    if constexpr (kGridPanels > 1)
      for (; panel_index < job.panel_end; ++panel_index) GridPanels<1>(pass, type, panel_index);
  } while ((pass.k0 += pass.depth) < pass.shard.end());
}

}  // namespace

void GridRows(const MatmulJob& job, const WidenedType& type) {
  thread_local GridScratch scratch;
  auto* acts = reinterpret_cast<float*>(scratch.acts.data());
  auto* weights = reinterpret_cast<float*>(scratch.weights.data());
  float* levels = scratch.LevelsFor(job);
  for (size_t row0 = 0; row0 < job.m; row0 += kPassTiles * kGridRows) {
    const size_t row1 = std::min(job.m, row0 + kPassTiles * kGridRows);
    // Tiles of equal height waste the least.
    const size_t tiles = (row1 - row0 + kGridRows - 1) / kGridRows;
    const size_t height = Grid<kGridPanels>::For((row1 - row0 + tiles - 1) / tiles).rows;
    for (ShardWalk walk(job.cuts); walk; walk.next())
      GridShard({job, walk, row0, row1, height, walk.begin(), 0, acts, weights, levels}, type, acts);
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
