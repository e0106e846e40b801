// Reductions that several kernels need inside: the largest value, the sum of squares.
#if defined(BUTTERFLY_KERNELS_REDUCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BUTTERFLY_KERNELS_REDUCE_INL_H_
#undef BUTTERFLY_KERNELS_REDUCE_INL_H_
#else
#define BUTTERFLY_KERNELS_REDUCE_INL_H_
#endif

#include <limits>

#include "kernels/simd/vector_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

HWY_INLINE float SumSquares(const float* a, size_t count) {
  return SumLanes([](VF lane, VF x) HWY_ATTR { return Fma(x, x, lane); }, count, a);
}

// The larger one; `kept` when x is NaN, which max instructions do not agree about.
HWY_INLINE VF KeepLarger(VF kept, VF x) { return hn::IfThenElse(hn::Gt(x, kept), x, kept); }

HWY_INLINE float MaxValue(const float* a, size_t count) {
  const DF d;
  const VF lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  VF m0 = lowest, m1 = lowest, m2 = lowest, m3 = lowest;
  size_t i = 0;
  for (; i + 4 * kVF <= count; i += 4 * kVF) {
    m0 = KeepLarger(m0, hn::LoadU(d, a + i));
    m1 = KeepLarger(m1, hn::LoadU(d, a + i + kVF));
    m2 = KeepLarger(m2, hn::LoadU(d, a + i + 2 * kVF));
    m3 = KeepLarger(m3, hn::LoadU(d, a + i + 3 * kVF));
  }
  for (; i + kVF <= count; i += kVF) m0 = KeepLarger(m0, hn::LoadU(d, a + i));
  if (i < count) {
    const VF tail = LoadTail(a + i, count - i);
    m1 = KeepLarger(m1, hn::IfThenElse(hn::FirstN(d, count - i), tail, lowest));
  }
  const VF m = KeepLarger(KeepLarger(m0, m1), KeepLarger(m2, m3));
  alignas(64) float lanes[kVF];
  hn::Store(m, d, lanes);
  float largest = lanes[0];
  for (size_t p = 1; p < kVF; ++p) largest = lanes[p] > largest ? lanes[p] : largest;
  return largest + 0.0f;  // -0 becomes +0: which of the two stood first must not show
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
