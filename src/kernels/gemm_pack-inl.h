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

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// Floats that packing may write behind the end of what it packs.
inline constexpr size_t kPackSlack = 16;

// to[k * to_step + i] = ri[k] for kVF values of k: blocks of 4 x 4 are turned in registers.
HWY_INLINE void PackFour(const float* r0, const float* r1, const float* r2, const float* r3, float* to,
                         size_t to_step) {
  const DF d;
  const hn::Repartition<double, DF> dd;
  const VF v0 = hn::LoadU(d, r0), v1 = hn::LoadU(d, r1), v2 = hn::LoadU(d, r2), v3 = hn::LoadU(d, r3);
  // Per block of four values: 0 1 of rows 0, 1; then of rows 2, 3.
  const auto lo01 = hn::BitCast(dd, hn::InterleaveLower(d, v0, v1));
  const auto hi01 = hn::BitCast(dd, hn::InterleaveUpper(d, v0, v1));
  const auto lo23 = hn::BitCast(dd, hn::InterleaveLower(d, v2, v3));
  const auto hi23 = hn::BitCast(dd, hn::InterleaveUpper(d, v2, v3));
  const VF turned[4] = {hn::BitCast(d, hn::InterleaveLower(dd, lo01, lo23)),
                        hn::BitCast(d, hn::InterleaveUpper(dd, lo01, lo23)),
                        hn::BitCast(d, hn::InterleaveLower(dd, hi01, hi23)),
                        hn::BitCast(d, hn::InterleaveUpper(dd, hi01, hi23))};
  const hn::CappedTag<float, 4> d4;
  BF_UNROLL
  for (size_t i = 0; i < 4; ++i) {  // block b of turned[i] is step 4 b + i
#if HWY_MAX_BYTES == 64
    const hn::Half<DF> d8;
    const auto low = hn::LowerHalf(d8, turned[i]), high = hn::UpperHalf(d8, turned[i]);
    hn::StoreU(hn::LowerHalf(d4, low), d4, to + i * to_step);
    hn::StoreU(hn::UpperHalf(d4, low), d4, to + (4 + i) * to_step);
    hn::StoreU(hn::LowerHalf(d4, high), d4, to + (8 + i) * to_step);
    hn::StoreU(hn::UpperHalf(d4, high), d4, to + (12 + i) * to_step);
#elif HWY_MAX_BYTES == 32
    hn::StoreU(hn::LowerHalf(d4, turned[i]), d4, to + i * to_step);
    hn::StoreU(hn::UpperHalf(d4, turned[i]), d4, to + (4 + i) * to_step);
#else
    hn::StoreU(turned[i], d4, to + i * to_step);
#endif
  }
}

// Zeros from `cols` to the next step, in all steps.
HWY_INLINE void PadSteps(float* to, size_t cols, size_t to_step, size_t depth) {
  if (cols == to_step) return;
  for (size_t k = 0; k < depth; ++k) std::fill(to + k * to_step + cols, to + (k + 1) * to_step, 0.0f);
}

// to[k * to_step + r] = row(r)[k] for r < rows <= to_step, k < depth. Leaves anything in the other columns,
// and in kPackSlack floats behind the end.
template <class Row>
HWY_INLINE void PackRows(Row row, size_t rows, size_t depth, float* to, size_t to_step) {
  size_t k = 0;
  // The last group of four goes first: what it writes into the next step, the first group overwrites.
  for (; to_step >= 4 && k + kVF <= depth; k += kVF)
    for (size_t group = (rows + 3) / 4; group-- > 0;) {
      const size_t r = group * 4, last = rows - 1;
      PackFour(row(r) + k, row(std::min(r + 1, last)) + k, row(std::min(r + 2, last)) + k,
               row(std::min(r + 3, last)) + k, to + k * to_step + r, to_step);
    }
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
  for (size_t k = 0; k < depth; ++k) {
    const float* at = from + k * stride;
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
