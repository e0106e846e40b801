// Long sums down the columns of a matrix on vectors and threads; the plain form is ref/column_blocks.h.
#if defined(BUTTERFLY_KERNELS_COLUMN_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BUTTERFLY_KERNELS_COLUMN_BLOCKS_INL_H_
#undef BUTTERFLY_KERNELS_COLUMN_BLOCKS_INL_H_
#else
#define BUTTERFLY_KERNELS_COLUMN_BLOCKS_INL_H_
#endif

#include <algorithm>

#include "base/thread_pool.h"
#include "kernels/simd/position_block.h"
#include "kernels/simd/vector_loops-inl.h"
#include "tensor/buffer.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// Vectors side by side: as many chains as hide the latency of an addition.
inline constexpr size_t kColumnVectors = 4;
inline constexpr size_t kColumnGroup = kColumnVectors * kVF;

// kSums sums of rows [begin, end) and the columns [col, col + vectors): partial[s * stride + column].
// `add(acc, row, col, load)` continues kSums chains of one vector; load(p) reads floats at p of this vector's
// columns.
template <size_t kSums, size_t kVectors, class Add>
HWY_INLINE void ColumnChains(Add add, size_t begin, size_t end, size_t col, float* partial, size_t stride) {
  VF acc[kVectors][kSums];
  BF_UNROLL
  for (size_t v = 0; v < kVectors; ++v) BF_UNROLL
  for (size_t s = 0; s < kSums; ++s) acc[v][s] = hn::Zero(DF());
  for (size_t row = begin; row < end; ++row) {
    BF_UNROLL
    for (size_t v = 0; v < kVectors; ++v)
      add(acc[v], row, col + v * kVF, [](const float* p) HWY_ATTR { return hn::LoadU(DF(), p); });
  }
  BF_UNROLL
  for (size_t v = 0; v < kVectors; ++v) BF_UNROLL
  for (size_t s = 0; s < kSums; ++s) hn::StoreU(acc[v][s], DF(), partial + s * stride + col + v * kVF);
}

// The last columns, fewer than a vector.
template <size_t kSums, class Add>
HWY_INLINE void ColumnTail(Add add, size_t begin, size_t end, size_t col, size_t count, float* partial,
                           size_t stride) {
  VF acc[kSums];
  for (size_t s = 0; s < kSums; ++s) acc[s] = hn::Zero(DF());
  for (size_t row = begin; row < end; ++row)
    add(acc, row, col, [count](const float* p) HWY_ATTR { return LoadTail(p, count); });
  for (size_t s = 0; s < kSums; ++s) StoreTail(acc[s], partial + s * stride + col, count);
}

// Columns [col, stop) of one block of rows.
template <size_t kSums, class Add>
HWY_NOINLINE void ColumnGroupOf(Add add, size_t begin, size_t end, size_t col, size_t stop, float* partial,
                                size_t stride) {
  if (col + kColumnGroup <= stop)
    return ColumnChains<kSums, kColumnVectors>(add, begin, end, col, partial, stride);
  for (; col + kVF <= stop; col += kVF) ColumnChains<kSums, 1>(add, begin, end, col, partial, stride);
  if (col < stop) ColumnTail<kSums>(add, begin, end, col, stop - col, partial, stride);
}

// totals[s][col] = (accumulate ? totals[s][col] : 0) + block 0 + block 1 + ...; null totals are dropped.
// Threads take blocks and groups of columns.
template <size_t kSums, class Add>
HWY_INLINE void ColumnBlocks(ThreadPool& pool, size_t rows, size_t cols, bool accumulate,
                             float* const (&totals)[kSums], Add add) {
  const size_t blocks = (rows + kPositionBlock - 1) / kPositionBlock;
  const size_t groups = (cols + kColumnGroup - 1) / kColumnGroup;
  thread_local Buffer buffer;
  const size_t bytes = blocks * kSums * cols * sizeof(float);
  if (buffer.size() < bytes) buffer = Buffer::allocate(bytes);
  auto* partial = reinterpret_cast<float*>(buffer.data());
  pool.parallel_for(blocks * groups, 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const size_t block = i / groups, col = i % groups * kColumnGroup;
      ColumnGroupOf<kSums>(add, block * kPositionBlock, std::min(rows, (block + 1) * kPositionBlock), col,
                           std::min(cols, col + kColumnGroup), partial + block * kSums * cols, cols);
    }
  });
  for (size_t s = 0; s < kSums; ++s) {
    if (totals[s] == nullptr) continue;
    if (!accumulate) std::fill_n(totals[s], cols, 0.0f);
    for (size_t block = 0; block < blocks; ++block)
      Map([](VF a, VF b) HWY_ATTR { return hn::Add(a, b); }, totals[s], cols, totals[s],
          partial + (block * kSums + s) * cols);
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
