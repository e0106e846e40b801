// Packing for gemm_tile-inl.h: rows of a matrix side by side, so that a tile reads one straight line.
#if defined(BUTTERFLY_KERNELS_GEMM_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BUTTERFLY_KERNELS_GEMM_PACK_INL_H_
#undef BUTTERFLY_KERNELS_GEMM_PACK_INL_H_
#else
#define BUTTERFLY_KERNELS_GEMM_PACK_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// Floats that packing may write behind the end of what it packs.
inline constexpr size_t kPackSlack = 16;

// Four floats of each of kVF / 4 rows, one row per block of 128 bits.
template <class Row>
HWY_INLINE VF LoadBlocks(Row row, size_t first, size_t last, size_t k) {
  const hn::CappedTag<float, 4> d4;
  const auto block = [&](size_t r) HWY_ATTR { return hn::LoadU(d4, row(std::min(r, last)) + k); };
#if HWY_MAX_BYTES == 64
  const hn::Half<DF> d8;
  return hn::Combine(DF(), hn::Combine(d8, block(first + 12), block(first + 8)),
                     hn::Combine(d8, block(first + 4), block(first)));
#elif HWY_MAX_BYTES == 32
  return hn::Combine(DF(), block(first + 4), block(first));
#else
  return block(first);
#endif
}

// to[i * to_step + r] = row(first + r)[k + i] for four steps and kVF rows; rows behind `last` repeat it.
template <class Row>
HWY_INLINE void PackFourSteps(Row row, size_t first, size_t last, size_t k, float* to, size_t to_step) {
  const DF d;
  const hn::Repartition<double, DF> dd;
  // Rows r, r + 4, ... in the blocks of one vector: transposing 4 x 4 inside the blocks puts all rows in
  // order.
  const VF v0 = LoadBlocks(row, first, last, k), v1 = LoadBlocks(row, first + 1, last, k);
  const VF v2 = LoadBlocks(row, first + 2, last, k), v3 = LoadBlocks(row, first + 3, last, k);
  const auto lo01 = hn::BitCast(dd, hn::InterleaveLower(d, v0, v1));
  const auto hi01 = hn::BitCast(dd, hn::InterleaveUpper(d, v0, v1));
  const auto lo23 = hn::BitCast(dd, hn::InterleaveLower(d, v2, v3));
  const auto hi23 = hn::BitCast(dd, hn::InterleaveUpper(d, v2, v3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, lo01, lo23)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, lo01, lo23)), d, to + to_step);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, hi01, hi23)), d, to + 2 * to_step);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, hi01, hi23)), d, to + 3 * to_step);
}

// Zeros from `cols` to the next step, in all steps.
HWY_INLINE void PadSteps(float* to, size_t cols, size_t to_step, size_t depth) {
  if (cols == to_step) return;
  for (size_t k = 0; k < depth; ++k) std::fill(to + k * to_step + cols, to + (k + 1) * to_step, 0.0f);
}

// Rows [first, first + kVF) of PackRows() by whole lines, through a copy.
inline constexpr size_t kStagedSteps = 64;
template <class Row>
HWY_INLINE void PackStaged(Row row, size_t first, size_t last, size_t k, float* to, size_t to_step) {
  constexpr size_t kStride = kStagedSteps + 16;
  const DF d;
  alignas(64) float stage[kVF * kStride];
  const size_t rows = std::min(kVF, last + 1 - first);
  for (size_t r = 0; r < rows; ++r)
    for (size_t i = 0; i < kStagedSteps; i += kVF)
      hn::Store(hn::LoadU(d, row(first + r) + k + i), d, stage + r * kStride + i);
  const auto staged = [&stage](size_t r) HWY_ATTR { return stage + r * kStride; };
  for (size_t i = 0; i < kStagedSteps; i += 4)
    PackFourSteps(staged, 0, rows - 1, i, to + i * to_step, to_step);
}

// to[k * to_step + r] = row(r)[k] for r < rows <= to_step, k < depth. Leaves anything in the other columns,
// and in kPackSlack floats behind the end.
template <class Row>
HWY_INLINE void PackRows(Row row, size_t rows, size_t depth, float* to, size_t to_step) {
  size_t k = 0;
  const size_t groups = (rows + kVF - 1) / kVF;
  // Rows a multiple of 2 KiB apart share a few sets of the first cache, and push each other out.
  const bool crowded = rows > 8 && (row(1) - row(0)) % 512 == 0;
  for (; crowded && k + kStagedSteps <= depth; k += kStagedSteps)
    for (size_t group = groups; group-- > 0;)
      PackStaged(row, group * kVF, rows - 1, k, to + k * to_step + group * kVF, to_step);
  // What the last rows write too much, the first ones and the next steps overwrite.
  for (; k + 4 <= depth; k += 4)
    for (size_t group = groups; group-- > 0;)
      PackFourSteps(row, group * kVF, rows - 1, k, to + k * to_step + group * kVF, to_step);
  for (; k < depth; ++k)
    for (size_t r = 0; r < rows; ++r) to[k * to_step + r] = row(r)[k];
}

// to[k * to_step + c] = from[k * stride + c] for c < cols <= to_step; the rest as above. `readable` >= cols:
// floats of a row that exist.
HWY_INLINE void PackColumns(const float* from, size_t stride, size_t cols, size_t readable, size_t depth,
                            float* to, size_t to_step) {
  const DF d;
  const size_t up = (cols + kVF - 1) / kVF * kVF;
  const size_t vector_cols = up <= readable && up < to_step + kPackSlack ? up : cols / kVF * kVF;
  constexpr size_t kAhead = 8;  // rows: each may be on a page of its own, where no prefetcher looks
  for (size_t k = 0; k < depth; ++k) {
    const float* at = from + k * stride;
    if (k + kAhead < depth)
      for (size_t c = 0; c < cols; c += 16) __builtin_prefetch(at + kAhead * stride + c, 0, 3);
    float* out = to + k * to_step;
    size_t c = 0;
    for (; c < vector_cols; c += kVF) hn::StoreU(hn::LoadU(d, at + c), d, out + c);
    for (; c < cols; ++c) out[c] = at[c];
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
