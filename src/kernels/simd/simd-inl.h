// Shared SIMD pieces, included once per target by every kernel source: exact FMA, half conversions, logical
// lanes.
//
// Rules that make every target give the same bits:
//  - Fma() is one rounding everywhere; targets without the instruction emulate it.
//  - Reductions use kLogicalLanes partial sums (element i goes to lane i % kLogicalLanes) and
//  reduce_lanes()'s tree.
//  - Half conversions round to nearest even.
// The scalar target does not use this file's vectors: it runs the plain loops in ref/.
#if defined(BUTTERFLY_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BUTTERFLY_KERNELS_SIMD_INL_H_
#undef BUTTERFLY_KERNELS_SIMD_INL_H_
#else
#define BUTTERFLY_KERNELS_SIMD_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/simd/half.h"
#include "kernels/simd/lanes.h"

// In front of a loop with a constant, small trip count whose arrays must live in registers: at -O2 GCC would
// keep the loop, and the accumulators in memory.
#ifndef BF_UNROLL
#define BF_UNROLL _Pragma("GCC unroll 16")
#endif

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;

// Vectors of at most 16 floats: the panel width of packed weights.
using DF = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<DF>;
using DU = hn::RebindToUnsigned<DF>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
inline constexpr size_t kVF = HWY_MAX_BYTES / sizeof(float);  // floats per vector: 4, 8 or 16

// a * b + c with a single rounding.
#if HWY_NATIVE_FMA
HWY_INLINE VF Fma(VF a, VF b, VF c) { return hn::MulAdd(a, b, c); }
#else
// The product of two floats is exact in double. Their sum with c is rounded to odd (Boldo & Melquiond,
// "Emulation of FMA and correctly rounded sums", 2008), so that the last rounding to float is the only one
// that counts.
template <class DD>
HWY_INLINE hn::Vec<DD> FmaRoundToOdd(DD dd, hn::Vec<DD> a, hn::Vec<DD> b, hn::Vec<DD> c) {
  const hn::Rebind<int64_t, DD> di;
  const auto product = hn::Mul(a, b);
  const auto sum = hn::Add(product, c);
  const auto back = hn::Sub(sum, product);
  const auto error = hn::Add(hn::Sub(product, hn::Sub(sum, back)), hn::Sub(c, back));
  // Inexact and even: move one step towards the error, which makes the last bit odd.
  const auto bits = hn::BitCast(di, sum);
  const auto one = hn::Set(di, 1);
  const auto even = hn::Eq(hn::And(bits, one), hn::Zero(di));
  const auto inexact = hn::RebindMask(di, hn::Ne(error, hn::Zero(dd)));
  const auto finite = hn::RebindMask(di, hn::Lt(hn::Abs(sum), hn::Set(dd, 0x1p1000)));
  const auto away =
      hn::RebindMask(di, hn::Not(hn::Xor(hn::Lt(error, hn::Zero(dd)), hn::Lt(sum, hn::Zero(dd)))));
  const auto step = hn::IfThenElse(away, one, hn::Set(di, -1));
  const auto fix = hn::And(hn::And(even, inexact), finite);
  return hn::BitCast(dd, hn::Add(bits, hn::IfThenElseZero(fix, step)));
}
HWY_INLINE VF Fma(VF a, VF b, VF c) {
  const DF d;
  const hn::Half<DF> dh;
  const hn::Rebind<double, hn::Half<DF>> dd;
  const auto lo =
      FmaRoundToOdd(dd, hn::PromoteTo(dd, hn::LowerHalf(dh, a)), hn::PromoteTo(dd, hn::LowerHalf(dh, b)),
                    hn::PromoteTo(dd, hn::LowerHalf(dh, c)));
  const auto hi =
      FmaRoundToOdd(dd, hn::PromoteTo(dd, hn::UpperHalf(dh, a)), hn::PromoteTo(dd, hn::UpperHalf(dh, b)),
                    hn::PromoteTo(dd, hn::UpperHalf(dh, c)));
  return hn::Combine(d, hn::DemoteTo(dh, hi), hn::DemoteTo(dh, lo));
}
#endif

// c - a * b with a single rounding.
HWY_INLINE VF NegFma(VF a, VF b, VF c) { return Fma(hn::Neg(a), b, c); }

// kVF halves to floats (exact) and back (nearest even). Pointers need no alignment.
#if HWY_TARGET == HWY_SSE4
HWY_INLINE VF LoadF16(const uint16_t* from) {
  alignas(64) float wide[kVF];
  for (size_t i = 0; i < kVF; ++i) wide[i] = f16_to_f32(from[i]);
  return hn::Load(DF(), wide);
}
HWY_INLINE void StoreF16(VF v, uint16_t* to) {
  alignas(64) float wide[kVF];
  hn::Store(v, DF(), wide);
  for (size_t i = 0; i < kVF; ++i) to[i] = f32_to_f16(wide[i]);
}
#else
HWY_INLINE VF LoadF16(const uint16_t* from) {
  const hn::Rebind<hwy::float16_t, DF> dh;
  return hn::PromoteTo(DF(), hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(from)));
}
HWY_INLINE void StoreF16(VF v, uint16_t* to) {
  const hn::Rebind<hwy::float16_t, DF> dh;
  hn::StoreU(hn::DemoteTo(dh, v), dh, reinterpret_cast<hwy::float16_t*>(to));
}
#endif
HWY_INLINE VF LoadBF16(const uint16_t* from) {
  const hn::Rebind<uint16_t, DF> d16;
  return hn::BitCast(DF(), hn::ShiftLeft<16>(hn::PromoteTo(DU(), hn::LoadU(d16, from))));
}

// The sum of kCount vectors by a tree: halves are added until one value is left.
template <size_t kCount>
HWY_INLINE float TreeTotal(const VF* parts) {
  VF t[kCount];
  BF_UNROLL
  for (size_t p = 0; p < kCount; ++p) t[p] = parts[p];
  BF_UNROLL
  for (size_t width = kCount / 2; width >= 1; width /= 2) BF_UNROLL
  for (size_t p = 0; p < width; ++p) t[p] = hn::Add(t[p], t[p + width]);
  const hn::CappedTag<float, 4> d4;
#if HWY_MAX_BYTES == 64
  const hn::Half<DF> d8;
  const auto eight = hn::Add(hn::LowerHalf(d8, t[0]), hn::UpperHalf(d8, t[0]));
  auto four = hn::Add(hn::LowerHalf(d4, eight), hn::UpperHalf(d4, eight));
#elif HWY_MAX_BYTES == 32
  auto four = hn::Add(hn::LowerHalf(d4, t[0]), hn::UpperHalf(d4, t[0]));
#else
  auto four = t[0];
#endif
  four = hn::Add(four, hn::Shuffle1032(four));
  return hn::GetLane(hn::Add(four, hn::Shuffle2301(four)));
}

// kLogicalLanes partial sums in 32 / kVF vectors.
struct LaneSums {
  static constexpr size_t kVectors = kLogicalLanes / kVF;
  VF v[kVectors];

  HWY_INLINE LaneSums() {
    BF_UNROLL
    for (size_t p = 0; p < kVectors; ++p) v[p] = hn::Zero(DF());
  }
  // As reduce_lanes().
  HWY_INLINE float Total() const { return TreeTotal<kVectors>(v); }
};

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
