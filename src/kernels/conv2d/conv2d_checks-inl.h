// Questions about values whose answers allow steps of a convolution to be left out or added
// (conv2d_gather.cc, conv2d_cells.cc).
#if defined(BUTTERFLY_KERNELS_CONV2D_CHECKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BUTTERFLY_KERNELS_CONV2D_CHECKS_INL_H_
#undef BUTTERFLY_KERNELS_CONV2D_CHECKS_INL_H_
#else
#define BUTTERFLY_KERNELS_CONV2D_CHECKS_INL_H_
#endif

#include "kernels/gemm/gemm_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// `count` is a multiple of kTileCols.
inline HWY_NOINLINE bool AllFinite(const float* values, size_t count) {
  const DF d;
  const VF zero = hn::Zero(d);
  VF sums[4] = {zero, zero, zero, zero};  // of x * 0: a NaN if x is not finite
  for (size_t i = 0; i < count; i += kTileCols) BF_UNROLL
  for (size_t n = 0; n < kTileVectors; ++n)
    sums[n % 4] = hn::Add(sums[n % 4], hn::Mul(hn::Load(d, values + i + n * kVF), zero));
  const VF all = hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]));
  return hn::AllTrue(d, hn::Eq(all, zero));
}

// Whether any of the kTileCols floats of these rows is -0.
HWY_INLINE bool AnyMinusZero(float* const* rows, size_t count, size_t column) {
  const DU d;
  const auto minus_zero = hn::Set(d, 0x80000000u);
  auto any = hn::Eq(minus_zero, hn::Zero(d));
  for (size_t m = 0; m < count; ++m) BF_UNROLL
  for (size_t n = 0; n < kTileVectors; ++n) {
    const VF value = hn::LoadU(DF(), rows[m] + column + n * kVF);
    any = hn::Or(any, hn::Eq(hn::BitCast(d, value), minus_zero));
  }
  return !hn::AllFalse(d, any);
}

// Whether any of the first `cols` sums of these rows is zero, infinite or no number.
HWY_INLINE bool AnyDoubtful(float* const* rows, size_t count, size_t cols) {
  const DI d;
  const auto magnitude = hn::Set(d, 0x7fffffff), zero = hn::Zero(d), largest = hn::Set(d, 0x7f7fffff);
  bool any = false;
  for (size_t m = 0; m < count; ++m)
    for (size_t n = 0; n < cols; n += kVF) {
      const auto bits = hn::And(hn::BitCast(d, hn::LoadU(DF(), rows[m] + n)), magnitude);
      const auto bad = hn::Or(hn::Eq(bits, zero), hn::Gt(bits, largest));
      any |= !hn::AllFalse(d, hn::And(bad, hn::FirstN(d, std::min(kVF, cols - n))));
    }
  return any;
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
