// Exact integer products of 8-bit lanes, per target: the inner step of every quantised matmul.
//
// A weight vector holds, for kVF rows, four bytes each (one chunk). An activation is four int8 values,
// broadcast. Each row's 32-bit lane receives the sum of its four products. How many steps fit before a wider
// sum is needed depends on the target: x86 without VNNI sums in 16 bits (maddubs), so a run is bounded by the
// largest weight.
#if defined(BUTTERFLY_KERNELS_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BUTTERFLY_KERNELS_DOT_INL_H_
#undef BUTTERFLY_KERNELS_DOT_INL_H_
#else
#define BUTTERFLY_KERNELS_DOT_INL_H_
#endif

#include <cstring>

#include "kernels/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

using D8 = hn::Repartition<uint8_t, DI>;
using D16 = hn::Repartition<int16_t, DI>;
using V8 = hn::Vec<D8>;
using V16 = hn::Vec<D16>;

inline constexpr size_t kParts = 16 / kVF;  // vectors per chunk of 16 rows

HWY_INLINE int32_t FourBytes(const int8_t* a) {
  int32_t word;
  std::memcpy(&word, a, 4);
  return word;
}
HWY_INLINE int32_t TwoShorts(const int16_t* a) {
  int32_t word;
  std::memcpy(&word, a, 4);
  return word;
}

// ---- AVX-512 with VNNI: one instruction per step, sums in 32 bits.
#if HWY_TARGET == HWY_AVX3_DL

inline constexpr size_t run_pairs(size_t /*max_weight*/, size_t group_pairs) { return group_pairs; }

struct Acc {
  VI v;
};
HWY_INLINE Acc ZeroAcc() { return {hn::Zero(DI())}; }
// Highway 1.0.3 does not name avx512vnni in its target string, so the intrinsic cannot be used.
HWY_INLINE Acc Step(Acc acc, V8 weights, const int8_t* a) {
  asm("vpdpbusd %2%{1to16%}, %1, %0"
      : "+v"(acc.v.raw)
      : "v"(weights.raw), "m"(*reinterpret_cast<const int32_t(*)[1]>(a)));
  return acc;
}
using Scale = VI;
HWY_INLINE Scale MakeScale(VI scale) { return scale; }
HWY_INLINE VI Flush(Acc acc, VI sum) { return hn::Add(sum, acc.v); }
HWY_INLINE VI FlushScaled(Acc acc, Scale scale, VI sum) { return hn::Add(sum, hn::Mul(acc.v, scale)); }

// Signed weights: w + 128 is unsigned, and the caller takes 128 * sum(a) off again.
using SignedAcc = Acc;
inline constexpr int32_t kSignedOffset = 128;
HWY_INLINE SignedAcc ZeroSignedAcc() { return ZeroAcc(); }
struct SignedWeights {
  V8 v;
};
HWY_INLINE SignedWeights MakeSigned(V8 w) { return {hn::Xor(w, hn::Set(D8(), uint8_t{0x80}))}; }
HWY_INLINE SignedAcc StepSigned(SignedAcc acc, SignedWeights w, const int8_t* a) { return Step(acc, w.v, a); }
HWY_INLINE VI FlushSigned(SignedAcc acc) { return acc.v; }

// ---- x86 with maddubs: pairs of products in 16 bits.
#elif HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4

// One pair of chunks adds at most 4 * max_weight * 127 to a 16-bit lane.
inline constexpr size_t run_pairs(size_t max_weight, size_t group_pairs) {
  const size_t fits = 32767 / (4 * max_weight * 127);
  return fits >= group_pairs ? group_pairs : fits >= 2 ? 2 : 1;
}

#if HWY_TARGET == HWY_AVX2
HWY_INLINE V16 MaddUnsigned(V8 u, V8 s) { return V16{_mm256_maddubs_epi16(u.raw, s.raw)}; }
HWY_INLINE VI Madd(V16 a, V16 b) { return VI{_mm256_madd_epi16(a.raw, b.raw)}; }
HWY_INLINE V8 SignOf(V8 value, V8 sign) { return V8{_mm256_sign_epi8(value.raw, sign.raw)}; }
HWY_INLINE V8 AbsBytes(V8 v) { return V8{_mm256_abs_epi8(v.raw)}; }
#else
HWY_INLINE V16 MaddUnsigned(V8 u, V8 s) { return V16{_mm_maddubs_epi16(u.raw, s.raw)}; }
HWY_INLINE VI Madd(V16 a, V16 b) { return VI{_mm_madd_epi16(a.raw, b.raw)}; }
HWY_INLINE V8 SignOf(V8 value, V8 sign) { return V8{_mm_sign_epi8(value.raw, sign.raw)}; }
HWY_INLINE V8 AbsBytes(V8 v) { return V8{_mm_abs_epi8(v.raw)}; }
#endif

struct Acc {
  V16 v;
};
HWY_INLINE Acc ZeroAcc() { return {hn::Zero(D16())}; }
HWY_INLINE Acc Step(Acc acc, V8 weights, const int8_t* a) {
  return {hn::Add(acc.v, MaddUnsigned(weights, hn::BitCast(D8(), hn::Set(DI(), FourBytes(a)))))};
}
// The scale twice in each 32-bit lane: one madd widens, scales and adds the two halves.
using Scale = V16;
HWY_INLINE Scale MakeScale(VI scale) {
  return hn::BitCast(D16(), hn::Or(hn::And(scale, hn::Set(DI(), 0xffff)), hn::ShiftLeft<16>(scale)));
}
HWY_INLINE VI Flush(Acc acc, VI sum) { return hn::Add(sum, Madd(acc.v, hn::Set(D16(), int16_t{1}))); }
HWY_INLINE VI FlushScaled(Acc acc, Scale scale, VI sum) { return hn::Add(sum, Madd(acc.v, scale)); }

// |w| * sign(a, w): at most 128 * 127 * 2 in a 16-bit lane, so each step widens at once.
using SignedAcc = VI;
inline constexpr int32_t kSignedOffset = 0;
HWY_INLINE SignedAcc ZeroSignedAcc() { return hn::Zero(DI()); }
struct SignedWeights {
  V8 v, magnitude;
};
HWY_INLINE SignedWeights MakeSigned(V8 w) { return {w, AbsBytes(w)}; }
HWY_INLINE SignedAcc StepSigned(SignedAcc acc, SignedWeights w, const int8_t* a) {
  const V8 act = hn::BitCast(D8(), hn::Set(DI(), FourBytes(a)));
  return hn::Add(acc, Madd(MaddUnsigned(w.magnitude, SignOf(act, w.v)), hn::Set(D16(), int16_t{1})));
}
HWY_INLINE VI FlushSigned(SignedAcc acc) { return acc; }

// ---- NEON: widening multiplies; no dot-product extension needed.
#elif HWY_TARGET == HWY_NEON

inline constexpr size_t run_pairs(size_t /*max_weight*/, size_t group_pairs) { return group_pairs; }

// Rows 0, 1 in lo and rows 2, 3 in hi, each row as two partial sums.
struct Acc {
  int32x4_t lo, hi;
};
HWY_INLINE Acc ZeroAcc() { return {vdupq_n_s32(0), vdupq_n_s32(0)}; }
HWY_INLINE Acc StepBytes(Acc acc, int8x16_t w, const int8_t* a) {
  const int8x16_t act = vreinterpretq_s8_s32(vdupq_n_s32(FourBytes(a)));
  acc.lo = vpadalq_s16(acc.lo, vmull_s8(vget_low_s8(w), vget_low_s8(act)));
  acc.hi = vpadalq_s16(acc.hi, vmull_s8(vget_high_s8(w), vget_high_s8(act)));
  return acc;
}
HWY_INLINE VI Rows(Acc acc) { return VI(vpaddq_s32(acc.lo, acc.hi)); }
// Unsigned weights are below 64, so they are the same bytes signed.
HWY_INLINE Acc Step(Acc acc, V8 weights, const int8_t* a) {
  return StepBytes(acc, vreinterpretq_s8_u8(weights.raw), a);
}
using Scale = VI;
HWY_INLINE Scale MakeScale(VI scale) { return scale; }
HWY_INLINE VI Flush(Acc acc, VI sum) { return hn::Add(sum, Rows(acc)); }
HWY_INLINE VI FlushScaled(Acc acc, Scale scale, VI sum) { return hn::Add(sum, hn::Mul(Rows(acc), scale)); }

using SignedAcc = Acc;
inline constexpr int32_t kSignedOffset = 0;
HWY_INLINE SignedAcc ZeroSignedAcc() { return ZeroAcc(); }
struct SignedWeights {
  int8x16_t v;
};
HWY_INLINE SignedWeights MakeSigned(V8 w) { return {vreinterpretq_s8_u8(w.raw)}; }
// -128 * -128 does not occur: activations are within -127 .. 127.
HWY_INLINE SignedAcc StepSigned(SignedAcc acc, SignedWeights w, const int8_t* a) {
  return StepBytes(acc, w.v, a);
}
HWY_INLINE VI FlushSigned(SignedAcc acc) { return Rows(acc); }

#else
#error "dot-inl.h: no integer products for this target"
#endif

// Sums of products of neighbouring 16-bit lanes: for each 32-bit lane lo * lo + hi * hi.
HWY_INLINE VI PairProducts(V16 a, V16 b) {
#if HWY_TARGET == HWY_AVX3_DL
  return VI{_mm512_madd_epi16(a.raw, b.raw)};
#elif HWY_TARGET == HWY_NEON
  return VI(vpaddq_s32(vmull_s16(vget_low_s16(a.raw), vget_low_s16(b.raw)),
                       vmull_s16(vget_high_s16(a.raw), vget_high_s16(b.raw))));
#else
  return Madd(a, b);
#endif
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
