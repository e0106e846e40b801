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

inline constexpr size_t kBlockDepth = 256;                // steps of k: a panel of columns then has 32 KiB
inline constexpr size_t kBlockRows = 512;                 // rows of a block: 512 KiB with their steps
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
  size_t chunk;     // steps of k whose shared operand is packed at once: a multiple of kBlockDepth

  size_t panels() const { return (job.n + kTileCols - 1) / kTileCols; }
  size_t row_blocks() const { return (job.m + row_size - 1) / row_size; }

  GemmPlan(const Gemm& j, size_t thread_count) : job(j), threads(thread_count) {
    share_a = job.n >= job.m;
    const size_t shared = share_a ? job.m : panels() * kTileCols;
    chunk = std::max<size_t>(kSharedFloats / std::max<size_t>(shared, 1) / kBlockDepth, 1) * kBlockDepth;
    const size_t mine = share_a ? job.m : (job.m + threads - 1) / threads;
    const size_t blocks = std::max<size_t>((mine + kBlockRows - 1) / kBlockRows, 1);
    row_size = std::max<size_t>((mine + blocks - 1) / blocks, 1);
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
  size_t piece_floats(size_t depth) const { return share_a ? TileSlot(depth) : depth * kTileCols; }
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

HWY_NOINLINE void Multiply(const GemmPlan& plan, Block chunk, size_t worker, const float* shared,
                           float* own) {
  const Gemm& job = plan.job;
  const size_t outer = plan.share_a ? plan.panels() : plan.row_blocks();
  const Block mine{outer * worker / plan.threads, outer * (worker + 1) / plan.threads};
  const Block panels = plan.share_a ? mine : Block{0, plan.panels()};
  const Block row_blocks = plan.share_a ? Block{0, plan.row_blocks()} : mine;
  for (size_t k = chunk.begin; k < chunk.end || k == 0; k += kBlockDepth) {
    const Block steps{k, std::min(chunk.end, k + kBlockDepth)};
    const Chain chain = k == 0 && !job.accumulate ? Chain::kFresh : Chain::kContinue;
    const bool last = steps.end == job.k;
    for (size_t i = row_blocks.begin; i < row_blocks.end; ++i) {
      const Block rows = BlockOf(i, plan.row_size, job.m);
      if (!plan.share_a) PackBlock(job, rows, steps, own);
      const float* a = plan.share_a ? shared + plan.shared_at(i * plan.tiles_per_block(), chunk, steps) : own;
      for (size_t panel = panels.begin; panel < panels.end; ++panel) {
        if (plan.share_a) PackPanel(job, panel, steps, own);
        const float* b = plan.share_a ? own : shared + plan.shared_at(panel, chunk, steps);
        MultiplyPanel(job, rows, panel, steps.size(), a, b, chain, last);
      }
    }
    if (job.k == 0) return;
  }
}

// Memory of a thread, kept for the next product.
inline float* Scratch(Buffer& buffer, size_t floats) {
  if (buffer.size() < floats * sizeof(float)) buffer = Buffer::allocate(floats * sizeof(float));
  return reinterpret_cast<float*>(buffer.data());
}

void run_gemm(const Gemm& job, ThreadPool* pool) {
  if (job.m == 0 || job.n == 0) return;
  const double work = static_cast<double>(job.m) * static_cast<double>(job.n) * static_cast<double>(job.k);
  const bool alone = pool == nullptr || pool->size() == 1 || work < kThreadWork;
  const GemmPlan plan(job, alone ? 1 : pool->size());
  thread_local Buffer shared_buffer;
  float* shared = Scratch(shared_buffer, plan.shared_floats());
  const auto own = [] {
    thread_local Buffer buffer;
    return Scratch(buffer, Tiling(kBlockRows).tiles * TileSlot(kBlockDepth));
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
