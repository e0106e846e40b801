// Vector twins of math.h's float functions: the same operations in the same order, so the same bits.
#if defined(BUTTERFLY_KERNELS_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BUTTERFLY_KERNELS_MATH_INL_H_
#undef BUTTERFLY_KERNELS_MATH_INL_H_
#else
#define BUTTERFLY_KERNELS_MATH_INL_H_
#endif

#include "kernels/math/math_constants.h"
#include "kernels/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// x where it is within the bound, else the bound. NaN stays NaN, which min and max instructions do not
// promise.
HWY_INLINE VF ClampAbove(VF x, float bound) {
  const VF b = hn::Set(DF(), bound);
  return hn::IfThenElse(hn::Gt(x, b), b, x);
}
HWY_INLINE VF ClampBelow(VF x, float bound) {
  const VF b = hn::Set(DF(), bound);
  return hn::IfThenElse(hn::Lt(x, b), b, x);
}

// x = n ln 2 + r.
struct Reduced {
  VF r;
  VI n;
};
HWY_INLINE Reduced Reduce(VF x) {
  const DF d;
  const DI di;
  const VF magic = hn::Set(d, math::kRoundMagic);
  const VF t = Fma(x, hn::Set(d, math::kLog2E), magic);
  const VF n = hn::Sub(t, magic);
  const VF r = Fma(n, hn::Set(d, -math::kLn2Lo), Fma(n, hn::Set(d, -math::kLn2Hi), x));
  return {r, hn::Sub(hn::BitCast(di, t), hn::BitCast(di, magic))};
}

// exp(r) - 1 for |r| <= ln(2) / 2.
HWY_INLINE VF Expm1Poly(VF r) {
  const DF d;
  VF q = Fma(hn::Set(d, math::kE6), r, hn::Set(d, math::kE5));
  q = Fma(q, r, hn::Set(d, math::kE4));
  q = Fma(q, r, hn::Set(d, math::kE3));
  q = Fma(q, r, hn::Set(d, math::kE2));
  return Fma(hn::Mul(r, r), q, r);
}

// 2^n as floats, -126 <= n <= 127.
HWY_INLINE VF Exp2Int(VI n) { return hn::BitCast(DF(), hn::ShiftLeft<23>(hn::Add(n, hn::Set(DI(), 127)))); }

HWY_INLINE VF Exp(VF x) {
  x = ClampBelow(ClampAbove(x, math::kExpMax), math::kExpMin);
  const Reduced a = Reduce(x);
  const VF e = hn::Add(hn::Set(DF(), 1.0f), Expm1Poly(a.r));
  const VI half = hn::ShiftRight<1>(a.n);
  return hn::Mul(hn::Mul(e, Exp2Int(half)), Exp2Int(hn::Sub(a.n, half)));
}

HWY_INLINE VF Tanh(VF x) {
  const DF d;
  const VF t = ClampAbove(hn::Abs(x), math::kTanhMax);
  const Reduced a = Reduce(hn::Add(t, t));
  const VF scale = Exp2Int(a.n);
  const VF m = Fma(Expm1Poly(a.r), scale, hn::Sub(scale, hn::Set(d, 1.0f)));
  return hn::CopySign(hn::Div(m, hn::Add(m, hn::Set(d, 2.0f))), x);
}

HWY_INLINE VF Sigmoid(VF x) {
  const DF d;
  const VF one = hn::Set(d, 1.0f);
  const VF e = Exp(hn::Neg(hn::Abs(x)));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
}

HWY_INLINE VF Silu(VF x) {
  x = ClampBelow(x, math::kGateMin);
  return hn::Mul(x, Sigmoid(x));
}

HWY_INLINE VF Gelu(VF x) {
  const DF d;
  x = ClampBelow(x, math::kGateMin);
  const VF slope = Fma(hn::Mul(x, x), hn::Set(d, math::kGelu3), hn::Set(d, math::kGelu1));
  return hn::Mul(x, Sigmoid(hn::Mul(x, slope)));
}

// As normal_tail_f32().
struct NormalTails {
  VF e, tail;
};
HWY_INLINE NormalTails NormalTailOf(VF t) {
  const DF d;
  const VF shift = hn::Set(d, math::kErfShift);
  const VF u = hn::Div(hn::Sub(t, shift), hn::Add(t, shift));
  VF h = hn::Set(d, math::kH[9]);
  for (int i = 8; i >= 0; --i) h = Fma(h, u, hn::Set(d, math::kH[i]));
  const VF minus_half = hn::Set(d, -0.5f);
  const VF square = hn::Mul(t, t);
  const VF error = Fma(t, t, hn::Neg(square));
  VF e = Exp(hn::Mul(minus_half, square));
  e = Fma(e, hn::Mul(minus_half, error), e);
  return {e, hn::Mul(e, h)};
}
HWY_INLINE VF GeluErf(VF x) {
  const DF d;
  x = ClampBelow(x, -math::kErfMax);
  const VF tail = NormalTailOf(ClampAbove(hn::Abs(x), math::kErfMax)).tail;
  return hn::Mul(x, hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Sub(hn::Set(d, 1.0f), tail), tail));
}

// cap * tanh(x / cap).
HWY_INLINE VF SoftCap(VF x, float cap) {
  const VF c = hn::Set(DF(), cap);
  return hn::Mul(c, Tanh(hn::Div(x, c)));
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
