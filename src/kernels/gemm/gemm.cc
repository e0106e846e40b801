// Blocks as in most fast products: some hundred steps of k, rows that fit the second cache, panels of
// columns. Rows of A are read where they are, columns of a B that is not transposed are packed by the first
// tile that meets them. What has to be packed before is packed by all threads together if every thread needs
// it, else by the thread that uses it. Tiles prefetch the outputs of the next tile and what is read next.
#include "kernels/gemm/gemm.h"

#include "kernels/gemm/gemm_few.h"
#include "kernels/gemm/gemm_shards.h"
#include "tensor/buffer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/gemm.cc"
#include "hwy/foreach_target.h"
#include "kernels/gemm/epilogue-inl.h"
#include "kernels/gemm/gemm_pack-inl.h"
#include "kernels/gemm/gemm_plain_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
void run_gemm(const Gemm& job, ThreadPool*) { ref::gemm(job); }
#else
namespace {

// Steps of k between two visits to C. Longer than the first cache would have it: panels from the second cache
// keep up with the FMAs, visits to C do not (768 against 256: 3 % faster).
inline constexpr size_t kDepthMax = 768;
inline constexpr size_t kBlockFloats = 256 << 10;   // of rows and steps that stay in the second cache
inline constexpr size_t kBlockRows = 1024;          // at most
inline constexpr size_t kSharedFloats = 256 << 10;  // of the shared operand packed at a time: as many
inline constexpr double kThreadWork = 1 << 18;      // FMAs that are worth waking other threads for

struct Block {
  size_t begin, end;
  size_t size() const { return end - begin; }
};
HWY_INLINE Block BlockOf(size_t index, size_t size, size_t end) {
  return {index * size, std::min(end, (index + 1) * size)};
}

// Packed tiles stand this far apart: packing may write behind the end of a tile.
HWY_INLINE size_t TileSlot(size_t depth) { return kTileHeight * depth + kPackSlack; }

// A tile of op(A): `height` rows from `first` on, step by step.
void PackTile(const Gemm& job, size_t first, size_t height, Block steps, float* to) {
  if (job.a.transposed) {
    PackColumns(job.a.data + steps.begin * job.a.stride + first, job.a.stride, height, job.m - first,
                steps.size(), to, height);
  } else {
    const float* from = job.a.data + first * job.a.stride + steps.begin;
    PackRows([from, stride = job.a.stride](size_t r) { return from + r * stride; }, height, steps.size(), to,
             height);
  }
}

// One panel of op(B).
void PackPanel(const Gemm& job, size_t panel, Block steps, float* to) {
  const size_t first = panel * kTileCols, cols = std::min(kTileCols, job.n - first);
  if (job.b.transposed) {
    const float* from = job.b.data + first * job.b.stride + steps.begin;
    PackRows([from, stride = job.b.stride](size_t r) { return from + r * stride; }, cols, steps.size(), to,
             kTileCols);
  } else {
    PackColumns(job.b.data + steps.begin * job.b.stride + first, job.b.stride, cols, job.n - first,
                steps.size(), to, kTileCols);
  }
  // Of a panel that fits one vector no other is read.
  const size_t width = cols <= kVF ? kVF : kTileCols;
  for (size_t k = 0; cols < width && k < steps.size(); ++k)
    std::fill(to + k * kTileCols + cols, to + k * kTileCols + width, 0.0f);
}

// What PackTile() and PackPanel() read, and the outputs of a tile.
PrefetchRows<StridedRows> PrefetchOperand(const GemmOperand& operand, bool rows_of_steps, size_t first,
                                          size_t count, Block steps) {
  if (rows_of_steps)
    return {{operand.data + steps.begin * operand.stride + first, operand.stride}, steps.size(), count};
  return {{operand.data + first * operand.stride + steps.begin, operand.stride}, count, steps.size()};
}
PrefetchRows<StridedRows> PrefetchTileRows(const Gemm& job, size_t first, size_t height, Block steps) {
  return PrefetchOperand(job.a, job.a.transposed, first, height, steps);
}
PrefetchRows<StridedRows> PrefetchPanel(const Gemm& job, size_t panel, Block steps) {
  const size_t first = panel * kTileCols;
  return PrefetchOperand(job.b, !job.b.transposed, first, std::min(kTileCols, job.n - first), steps);
}
HWY_INLINE PrefetchRows<StridedRows> PrefetchOutputs(const Gemm& job, size_t row, size_t height, size_t panel,
                                                     size_t pace) {
  const size_t first = panel * kTileCols;
  return {{job.c + row * job.c_stride + first, job.c_stride}, height, kTileCols, pace};
}

// Whether rows of A are read where they are. Those 4 KiB apart share a set of the first cache and push each
// other out: they are packed if they are read often.
HWY_INLINE bool ReadsRowsInPlace(const Gemm& job) {
  constexpr size_t kFewPanels = 8;
  return !job.a.transposed && (job.a.stride % 1024 != 0 || job.n <= kFewPanels * kTileCols);
}

// What a tile reads: `rows` packed (kept as PackTile() left them) or null, and a panel that is packed or
// about to be.
struct TileOperands {
  const float* rows = nullptr;
  const float* panel = nullptr;
  size_t panel_stride = kTileCols;
  float* keep = nullptr;
};

// A tile of `height` rows from `row` on times one panel.
HWY_INLINE void Multiply(const Gemm& job, size_t row, size_t height, size_t panel, Block steps,
                         const TileOperands& from, TilePrefetch<StridedRows>& prefetch) {
  const Chain chain = steps.begin == 0 && !job.accumulate ? Chain::kFresh : Chain::kContinue;
  const size_t first = panel * kTileCols, cols = std::min(kTileCols, job.n - first);
  const size_t at = row * job.c_stride + first;
  const bool in_place = from.rows == nullptr;
  float* c = job.c + at;
  PlainTile tile{in_place ? job.a.data + row * job.a.stride + steps.begin : from.rows,
                 in_place ? job.a.stride : height,
                 from.panel,
                 from.panel_stride,
                 steps.size(),
                 c,
                 job.c_stride,
                 chain,
                 from.keep};
  const auto run = PlainTileFor(height, in_place, from.keep != nullptr, cols <= kVF);
  if (cols == kTileCols) {
    run(tile, prefetch);
  } else {
    alignas(64) float edge[kTileHeight * kTileCols];
    if (chain != Chain::kFresh)
      for (size_t m = 0; m < height; ++m) std::copy_n(c + m * job.c_stride, cols, edge + m * kTileCols);
    tile.c = edge;
    tile.c_stride = kTileCols;
    run(tile, prefetch);
    for (size_t m = 0; m < height; ++m) std::copy_n(edge + m * kTileCols, cols, c + m * job.c_stride);
  }
  if (steps.end == job.k && HasEffect(job.epilogue))
    for (size_t m = 0; m < height; ++m)
      FinishRow(job.epilogue, c + m * job.c_stride, first, at + m * job.c_stride, cols, c + m * job.c_stride);
}

// What all threads of one product share.
struct GemmPlan {
  const Gemm& job;
  size_t threads;
  bool in_place;    // rows are read where they are
  bool share_a;     // threads split the columns; else the rows
  size_t depth;     // steps of k per block; the last one may have fewer
  size_t row_size;  // rows per block
  size_t chunk;     // steps whose shared operand is packed at once: some blocks

  GemmPlan(const Gemm& j, size_t thread_count) : job(j), threads(thread_count) {
    in_place = ReadsRowsInPlace(job);
    share_a = job.n >= job.m;
    const size_t blocks = std::max<size_t>((job.k + kDepthMax - 1) / kDepthMax, 1);
    depth = std::max<size_t>(((job.k + blocks - 1) / blocks + 15) / 16 * 16, 16);
    const size_t mine = share_a ? job.m : (job.m + threads - 1) / threads;
    const size_t rows_max = std::min(kBlockFloats / depth, kBlockRows);
    const size_t row_parts = (mine + rows_max - 1) / rows_max;
    row_size = (mine + row_parts - 1) / row_parts;
    const size_t across = share_a ? job.m : panels() * kTileCols;
    chunk =
        packs_shared() ? std::max<size_t>(kSharedFloats / across / depth, 1) * depth : std::max(job.k, depth);
  }
  size_t panels() const { return (job.n + kTileCols - 1) / kTileCols; }
  size_t row_blocks() const { return (job.m + row_size - 1) / row_size; }
  size_t tiles_per_block() const { return Tiling(row_size).tiles; }
  // The shared operand: per block of k all tiles, or all panels.
  size_t shared_pieces() const { return share_a ? row_blocks() * tiles_per_block() : panels(); }
  size_t piece_floats() const { return share_a ? TileSlot(depth) : depth * kTileCols; }
  // Where tile `piece` (counted through the row blocks) or panel `piece` stands.
  size_t shared_at(size_t piece, Block chunk_steps, Block steps) const {
    return ((steps.begin - chunk_steps.begin) / depth * shared_pieces() + piece) * piece_floats();
  }
  bool packs_shared() const { return !(share_a && in_place); }
  size_t shared_floats() const {
    if (!packs_shared()) return 0;
    return (std::min(chunk, job.k) + depth - 1) / depth * shared_pieces() * piece_floats();
  }
  // What one thread packs for itself: a panel, or a block of rows.
  size_t own_floats() const {
    return share_a ? depth * kTileCols : in_place ? 0 : tiles_per_block() * TileSlot(depth);
  }
};

HWY_NOINLINE void PackShared(const GemmPlan& plan, Block chunk, size_t worker, float* shared) {
  size_t index = 0;
  for (size_t k = chunk.begin; k < chunk.end; k += plan.depth) {
    const Block steps{k, std::min(chunk.end, k + plan.depth)};
    for (size_t i = 0; plan.share_a && i < plan.row_blocks(); ++i) {
      const Block rows = BlockOf(i, plan.row_size, plan.job.m);
      const Tiling tiling(rows.size());
      for (size_t t = 0; t < tiling.tiles; ++t)
        if (index++ % plan.threads == worker)
          PackTile(plan.job, rows.begin + tiling.begin(t), tiling.height(t), steps,
                   shared + plan.shared_at(i * plan.tiles_per_block() + t, chunk, steps));
    }
    for (size_t panel = 0; !plan.share_a && panel < plan.panels(); ++panel)
      if (index++ % plan.threads == worker)
        PackPanel(plan.job, panel, steps, shared + plan.shared_at(panel, chunk, steps));
  }
}

// Some panels times all rows; rows are packed or read in place.
HWY_NOINLINE void MultiplyPanels(const GemmPlan& plan, Block chunk, Block steps, Block panels,
                                 const float* shared, float* own) {
  const Gemm& job = plan.job;
  TilePrefetch<StridedRows> prefetch;
  const size_t pace = PaceOf(kTileHeight, steps.size());
  for (size_t i = 0; i < plan.row_blocks(); ++i) {
    const Block rows = BlockOf(i, plan.row_size, job.m);
    const Tiling tiling(rows.size());
    const float* a =
        plan.in_place ? nullptr : shared + plan.shared_at(i * plan.tiles_per_block(), chunk, steps);
    for (size_t panel = panels.begin; panel < panels.end; ++panel) {
      // Columns that stand side by side are packed by the first tile, if another one follows.
      const bool by_tile = !job.b.transposed && (panel + 1) * kTileCols <= job.n;
      if (!by_tile) PackPanel(job, panel, steps, own);
      prefetch.operand = {};
      if (panel + 1 < panels.end)
        prefetch.operand = PrefetchPanel(job, panel + 1, steps).Within(tiling.tiles * steps.size());
      for (size_t t = 0; t < tiling.tiles; ++t) {
        const bool last = t + 1 == tiling.tiles;
        const size_t next = last ? 0 : t + 1, next_panel = std::min(panel + last, panels.end - 1);
        prefetch.outputs =
            PrefetchOutputs(job, rows.begin + tiling.begin(next), tiling.height(next), next_panel, pace);
        TileOperands from{plan.in_place ? nullptr : a + t * plan.piece_floats(), own};
        if (by_tile && t == 0)
          from = {from.rows, job.b.data + steps.begin * job.b.stride + panel * kTileCols, job.b.stride,
                  tiling.tiles == 1 ? nullptr : own};
        Multiply(job, rows.begin + tiling.begin(t), tiling.height(t), panel, steps, from, prefetch);
      }
    }
  }
}

// Some blocks of rows times all panels; panels are packed.
HWY_NOINLINE void MultiplyRows(const GemmPlan& plan, Block chunk, Block steps, Block row_blocks,
                               const float* shared, float* own) {
  const Gemm& job = plan.job;
  const float* b = shared + plan.shared_at(0, chunk, steps);
  // Panels that all fit the second cache are walked for each tile: outputs are then met row by row, which
  // prefetchers understand.
  const bool by_tiles = plan.panels() * plan.piece_floats() <= kBlockFloats;
  TilePrefetch<StridedRows> prefetch;
  const size_t pace = PaceOf(kTileHeight, steps.size());
  for (size_t i = row_blocks.begin; i < row_blocks.end; ++i) {
    const Block rows = BlockOf(i, plan.row_size, job.m);
    const Tiling tiling(rows.size());
    const auto pack = [&](size_t t) {
      if (!plan.in_place)
        PackTile(job, rows.begin + tiling.begin(t), tiling.height(t), steps, own + t * TileSlot(plan.depth));
    };
    const auto multiply = [&](size_t t, size_t panel, size_t next, size_t next_panel) {
      prefetch.outputs =
          PrefetchOutputs(job, rows.begin + tiling.begin(next), tiling.height(next), next_panel, pace);
      const float* packed = plan.in_place ? nullptr : own + t * TileSlot(plan.depth);
      Multiply(job, rows.begin + tiling.begin(t), tiling.height(t), panel, steps,
               {packed, b + panel * plan.piece_floats()}, prefetch);
    };
    if (by_tiles) {
      for (size_t t = 0; t < tiling.tiles; ++t) {
        pack(t);
        const size_t next = std::min(t + 1, tiling.tiles - 1);
        prefetch.operand = PrefetchTileRows(job, rows.begin + tiling.begin(next), tiling.height(next), steps)
                               .Within(plan.panels() * steps.size());
        for (size_t panel = 0; panel < plan.panels(); ++panel) {
          const bool last = panel + 1 == plan.panels();
          multiply(t, panel, last ? next : t, last ? 0 : panel + 1);
        }
      }
    } else {
      for (size_t t = 0; t < tiling.tiles; ++t) pack(t);
      for (size_t panel = 0; panel < plan.panels(); ++panel) {
        const size_t next_panel = std::min(panel + 1, plan.panels() - 1);
        prefetch.operand = {{b + next_panel * plan.piece_floats(), kTileCols}, steps.size(), kTileCols};
        prefetch.operand = prefetch.operand.Within(tiling.tiles * steps.size());
        for (size_t t = 0; t < tiling.tiles; ++t) {
          const bool last = t + 1 == tiling.tiles;
          multiply(t, panel, last ? 0 : t + 1, last ? next_panel : panel);
        }
      }
    }
  }
}

// The share of one thread.
HWY_NOINLINE void MultiplyShare(const GemmPlan& plan, Block chunk, size_t worker, const float* shared,
                                float* own) {
  const size_t outer = plan.share_a ? plan.panels() : plan.row_blocks();
  const Block mine{outer * worker / plan.threads, outer * (worker + 1) / plan.threads};
  size_t k = chunk.begin;
  do {  // once even without steps: sums of nothing
    const Block steps{k, std::min(chunk.end, k + plan.depth)};
    plan.share_a ? MultiplyPanels(plan, chunk, steps, mine, shared, own)
                 : MultiplyRows(plan, chunk, steps, mine, shared, own);
  } while ((k += plan.depth) < chunk.end);
}

// Memory of a thread, kept for the next product; on huge pages.
float* Scratch(Buffer& buffer, size_t floats) {
  constexpr size_t kHugePages = size_t{4} << 20;  // from this size on
  const size_t bytes = floats * sizeof(float);
  if (buffer.size() < bytes) buffer = Buffer::allocate(std::max(bytes, kHugePages));
  return reinterpret_cast<float*>(buffer.data());
}

}  // namespace

void run_gemm(const Gemm& job, ThreadPool* pool) {
  if (job.m == 0 || job.n == 0) return;
  const double work = static_cast<double>(job.m) * static_cast<double>(job.n) * static_cast<double>(job.k);
  const bool alone = pool == nullptr || pool->size() == 1 || work < kThreadWork;
  const GemmPlan plan(job, alone ? 1 : pool->size());
  thread_local Buffer shared_buffer;
  float* shared = Scratch(shared_buffer, plan.shared_floats());
  const auto own = [&plan] {
    thread_local Buffer buffer;
    return Scratch(buffer, plan.own_floats());
  };
  size_t k = 0;
  do {
    const Block chunk{k, std::min(job.k, k + plan.chunk)};
    if (alone) {
      if (plan.packs_shared()) PackShared(plan, chunk, 0, shared);
      MultiplyShare(plan, chunk, 0, shared, own());
    } else {
      if (plan.packs_shared()) pool->run([&](size_t worker) { PackShared(plan, chunk, worker, shared); });
      pool->run([&](size_t worker) { MultiplyShare(plan, chunk, worker, shared, own()); });
    }
  } while ((k += plan.chunk) < job.k);
}
#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(run_gemm);
}  // namespace

void gemm(const Gemm& job, ThreadPool& pool) {
  if (job.shard_unit != 0) return gemm_shards(job, &pool);
  if (few_rows(job)) return gemm_few_rows(job, &pool);
  HWY_DYNAMIC_DISPATCH(run_gemm)(job, &pool);
}
void gemm(const Gemm& job) {
  if (job.shard_unit != 0) return gemm_shards(job, nullptr);
  if (few_rows(job)) return gemm_few_rows(job, nullptr);
  HWY_DYNAMIC_DISPATCH(run_gemm)(job, nullptr);
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
