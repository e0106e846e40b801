// Blocks as in most fast products: kBlockDepth steps of k, rows that fit the second cache, one panel of
// columns in the first. The operand that every thread needs is packed by all of them together, the other one
// by the thread that uses it.
#include "kernels/gemm.h"

#include "tensor/buffer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm.cc"
#include "hwy/foreach_target.h"
#include "kernels/epilogue-inl.h"
#include "kernels/gemm_pack-inl.h"
#include "kernels/gemm_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
void run_gemm(const Gemm& job, ThreadPool*) { ref::gemm(job); }
#else

namespace {

inline constexpr size_t kBlockDepth = 256;                // steps of k: a panel of columns then has 32 KiB
inline constexpr size_t kBlockFloats = 256 << 10;         // of rows and steps that stay in the second cache
inline constexpr size_t kBlockRows = 1024;                // at most
inline constexpr size_t kSharedFloats = size_t{4} << 20;  // of the shared operand packed at a time
inline constexpr double kThreadWork = 1 << 18;            // FMAs that are worth waking other threads for

struct Block {
  size_t begin, end;
  size_t size() const { return end - begin; }
};
HWY_INLINE Block BlockOf(size_t index, size_t size, size_t end) {
  return {index * size, std::min(end, (index + 1) * size)};
}

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

// Packed tiles stand this far apart: packing may write behind the end of a tile.
HWY_INLINE size_t TileSlot(size_t depth) { return kTileHeight * depth + kPackSlack; }

// A block of rows, tile by tile.
void PackBlock(const Gemm& job, Block rows, Block steps, float* to) {
  const Tiling tiling(rows.size());
  for (size_t t = 0; t < tiling.tiles; ++t)
    PackTile(job, rows.begin + tiling.begin(t), tiling.height(t), steps, to + t * TileSlot(steps.size()));
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
  PadSteps(to, cols, kTileCols, steps.size());
}

// A packed block of rows times one packed panel.
HWY_NOINLINE void MultiplyPanel(const Gemm& job, Block rows, size_t panel, size_t depth, const float* a,
                                const float* b, Chain chain, bool last) {
  const size_t first = panel * kTileCols, cols = std::min(kTileCols, job.n - first);
  const Tiling tiling(rows.size());
  alignas(64) float edge[kTileHeight * kTileCols];
  for (size_t t = 0; t < tiling.tiles; ++t) {
    const size_t height = tiling.height(t), at = (rows.begin + tiling.begin(t)) * job.c_stride + first;
    const Stretch stretch{a + t * TileSlot(depth), depth};
    float* c = job.c + at;
    if (cols == kTileCols) {
      StretchTileFor(height)(&stretch, 1, height, b, c, job.c_stride, chain);
    } else {
      if (chain != Chain::kFresh)
        for (size_t m = 0; m < height; ++m) std::copy_n(c + m * job.c_stride, cols, edge + m * kTileCols);
      StretchTileFor(height)(&stretch, 1, height, b, edge, kTileCols, chain);
      for (size_t m = 0; m < height; ++m) std::copy_n(edge + m * kTileCols, cols, c + m * job.c_stride);
    }
    if (last && HasEffect(job.epilogue))
      for (size_t m = 0; m < height; ++m)
        FinishRow(job.epilogue, c + m * job.c_stride, first, at + m * job.c_stride, cols,
                  c + m * job.c_stride);
  }
}

// What all threads of one product share.
struct GemmPlan {
  const Gemm& job;
  size_t threads;
  bool share_a;     // threads split the columns; else the rows
  size_t row_size;  // rows per block
  size_t depth;     // steps per round: a multiple of kBlockDepth. Sums rest in C only between rounds
  size_t chunk;     // steps whose shared operand is packed at once: some rounds

  size_t panels() const { return (job.n + kTileCols - 1) / kTileCols; }
  size_t row_blocks() const { return (job.m + row_size - 1) / row_size; }

  GemmPlan(const Gemm& j, size_t thread_count) : job(j), threads(thread_count) {
    share_a = job.n >= job.m;
    const size_t mine = std::max<size_t>(share_a ? job.m : (job.m + threads - 1) / threads, 1);
    // As many steps as fit beside all rows, if that leaves a few blocks; else fewer rows.
    const size_t beside = std::clamp<size_t>(kBlockFloats / mine / kBlockDepth, 2, 4);
    depth = std::min(beside * kBlockDepth, (job.k + kBlockDepth - 1) / kBlockDepth * kBlockDepth);
    depth = std::max(depth, kBlockDepth);
    const size_t rows_max = std::min(kBlockFloats / depth, kBlockRows);
    const size_t blocks = (mine + rows_max - 1) / rows_max;
    row_size = (mine + blocks - 1) / blocks;
    const size_t shared = share_a ? job.m : panels() * kTileCols;
    chunk = std::max<size_t>(kSharedFloats / std::max<size_t>(shared, 1) / depth, 1) * depth;
  }
  // The shared operand: per block of k all tiles, or all panels.
  size_t shared_pieces() const { return share_a ? row_blocks() * tiles_per_block() : panels(); }
  size_t tiles_per_block() const { return Tiling(row_size).tiles; }
  // Where tile `piece` (counted through the row blocks) or panel `piece` stands.
  size_t shared_at(size_t piece, Block chunk_steps, Block steps) const {
    const size_t block = (steps.begin - chunk_steps.begin) / kBlockDepth;
    return block * shared_pieces() * piece_floats(kBlockDepth) + piece * piece_floats(steps.size());
  }
  size_t shared_floats() const {
    const size_t blocks = (std::min(chunk, job.k) + kBlockDepth - 1) / kBlockDepth;
    return blocks * shared_pieces() * piece_floats(kBlockDepth);
  }
  size_t piece_floats(size_t steps) const { return share_a ? TileSlot(steps) : steps * kTileCols; }
  // What one thread packs for itself: a panel, or a block of rows through a round.
  size_t own_floats() const {
    return share_a ? kBlockDepth * kTileCols
                   : depth / kBlockDepth * tiles_per_block() * TileSlot(kBlockDepth);
  }
};

HWY_NOINLINE void PackShared(const GemmPlan& plan, Block chunk, size_t worker, float* shared) {
  size_t index = 0;
  for (size_t k = chunk.begin; k < chunk.end; k += kBlockDepth) {
    const Block steps{k, std::min(chunk.end, k + kBlockDepth)};
    if (plan.share_a) {
      for (size_t i = 0; i < plan.row_blocks(); ++i) {
        const Block rows = BlockOf(i, plan.row_size, plan.job.m);
        const Tiling tiling(rows.size());
        for (size_t t = 0; t < tiling.tiles; ++t)
          if (index++ % plan.threads == worker)
            PackTile(plan.job, rows.begin + tiling.begin(t), tiling.height(t), steps,
                     shared + plan.shared_at(i * plan.tiles_per_block() + t, chunk, steps));
      }
    } else {
      for (size_t panel = 0; panel < plan.panels(); ++panel)
        if (index++ % plan.threads == worker)
          PackPanel(plan.job, panel, steps, shared + plan.shared_at(panel, chunk, steps));
    }
  }
}

// The blocks of k of one round.
template <class F>
HWY_INLINE void EachBlock(Block round, F fn) {
  size_t k = round.begin;
  do {
    fn(Block{k, std::min(round.end, k + kBlockDepth)});
  } while ((k += kBlockDepth) < round.end);
}

// One block of rows in one round: panel after panel, each through all steps of the round.
HWY_NOINLINE void MultiplyRows(const GemmPlan& plan, Block chunk, Block round, size_t row_block, Block panels,
                               const float* shared, float* own) {
  const Gemm& job = plan.job;
  const Block rows = BlockOf(row_block, plan.row_size, job.m);
  const size_t tiles = Tiling(rows.size()).tiles;
  const auto own_rows = [&](Block steps) {
    return own + (steps.begin - round.begin) / kBlockDepth * tiles * TileSlot(kBlockDepth);
  };
  if (!plan.share_a) EachBlock(round, [&](Block steps) { PackBlock(job, rows, steps, own_rows(steps)); });
  for (size_t panel = panels.begin; panel < panels.end; ++panel)
    EachBlock(round, [&](Block steps) {
      const Chain chain = steps.begin == 0 && !job.accumulate ? Chain::kFresh : Chain::kContinue;
      const float* a = own_rows(steps);
      const float* b = own;
      if (plan.share_a) {
        a = shared + plan.shared_at(row_block * plan.tiles_per_block(), chunk, steps);
        PackPanel(job, panel, steps, own);
      } else {
        b = shared + plan.shared_at(panel, chunk, steps);
      }
      MultiplyPanel(job, rows, panel, steps.size(), a, b, chain, steps.end == job.k);
    });
}

HWY_NOINLINE void Multiply(const GemmPlan& plan, Block chunk, size_t worker, const float* shared,
                           float* own) {
  const Gemm& job = plan.job;
  const size_t outer = plan.share_a ? plan.panels() : plan.row_blocks();
  const Block mine{outer * worker / plan.threads, outer * (worker + 1) / plan.threads};
  const Block panels = plan.share_a ? mine : Block{0, plan.panels()};
  const Block row_blocks = plan.share_a ? Block{0, plan.row_blocks()} : mine;
  size_t k = chunk.begin;
  do {  // once even without steps: sums of nothing
    const Block round{k, std::min(chunk.end, k + plan.depth)};
    for (size_t i = row_blocks.begin; i < row_blocks.end; ++i)
      MultiplyRows(plan, chunk, round, i, panels, shared, own);
  } while ((k += plan.depth) < chunk.end);
}

// Memory of a thread, kept for the next product.
inline float* Scratch(Buffer& buffer, size_t floats) {
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
      PackShared(plan, chunk, 0, shared);
      Multiply(plan, chunk, 0, shared, own());
    } else {
      pool->run([&](size_t worker) { PackShared(plan, chunk, worker, shared); });
      pool->run([&](size_t worker) { Multiply(plan, chunk, worker, shared, own()); });
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

void gemm(const Gemm& job, ThreadPool& pool) { HWY_DYNAMIC_DISPATCH(run_gemm)(job, &pool); }
void gemm(const Gemm& job) { HWY_DYNAMIC_DISPATCH(run_gemm)(job, nullptr); }

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
