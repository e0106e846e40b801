#include "kernels/elementwise/activation_backward.h"

#include "kernels/math/math_constants.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/activation_backward.cc"
#include "hwy/foreach_target.h"
#include "kernels/math/math-inl.h"
#include "kernels/simd/vector_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void relu_slope(const float* y, const float* dy, float* dx, size_t n) { ref::relu_backward(y, dy, dx, n); }
void sigmoid_slope(const float* y, const float* dy, float* dx, size_t n) {
  ref::sigmoid_backward(y, dy, dx, n);
}
void tanh_slope(const float* y, const float* dy, float* dx, size_t n) { ref::tanh_backward(y, dy, dx, n); }
void silu_slope(const float* x, const float* dy, float* dx, size_t n) { ref::silu_backward(x, dy, dx, n); }
void gelu_slope(const float* x, const float* dy, float* dx, size_t n) { ref::gelu_backward(x, dy, dx, n); }
void gelu_erf_slope(const float* x, const float* dy, float* dx, size_t n) {
  ref::gelu_erf_backward(x, dy, dx, n);
}
void swiglu_slopes(const float* gate, const float* up, const float* dy, float* dgate, float* dup, size_t n) {
  ref::swiglu_backward(gate, up, dy, dgate, dup, n);
}
void geglu_slopes(const float* gate, const float* up, const float* dy, float* dgate, float* dup, size_t n) {
  ref::geglu_backward(gate, up, dy, dgate, dup, n);
}
void softmax_slope(const float* y, const float* dy, float* dx, size_t n) {
  ref::softmax_backward(y, dy, dx, n);
}

#else

HWY_INLINE VF Clamp(VF x, float bound) { return ClampBelow(ClampAbove(x, bound), -bound); }
HWY_INLINE VF OneMinus(VF s) { return hn::Sub(hn::Set(DF(), 1.0f), s); }

HWY_INLINE VF SiluSlope(VF x) {
  x = Clamp(x, -math::kGateMin);
  const VF s = Sigmoid(x);
  return Fma(hn::Mul(x, s), OneMinus(s), s);
}

HWY_INLINE VF GeluSlope(VF x) {
  const DF d;
  const DI di;
  const VF t = ClampAbove(hn::Abs(x), kGeluSlopeMax);
  const VF one = hn::Set(d, 1.0f), k1 = hn::Set(d, math::kGelu1), magic = hn::Set(d, math::kRoundMagic);
  const VF square = hn::Mul(t, t);
  const VF z = hn::Mul(t, Fma(square, hn::Set(d, math::kGelu3), k1));
  const VF shifted = Fma(z, hn::Set(d, -math::kLog2E), magic);
  const VF n = hn::Sub(shifted, magic);
  const VF u = NegFma(n, hn::Set(d, math::kLn2Hi), hn::Neg(z));
  VF p = Fma(hn::Set(d, math::kE6), u, hn::Set(d, math::kE5));
  p = Fma(p, u, hn::Set(d, math::kE4));
  p = Fma(p, u, hn::Set(d, math::kE3));
  p = Fma(p, u, hn::Set(d, math::kE2));
  p = Fma(p, u, one);
  p = Fma(p, u, one);
  const VF e = hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
  const VF r = hn::Div(one, hn::Add(one, e));
  const VF w = hn::Mul(t, Fma(square, hn::Set(d, 3.0f * math::kGelu3), k1));
  const VF q = hn::Mul(hn::Mul(r, e), NegFma(w, r, one));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), q, hn::Sub(one, q));
}

HWY_INLINE VF GeluErfSlope(VF x) {
  const DF d;
  x = Clamp(x, math::kErfMax);
  const auto [e, tail] = NormalTailOf(hn::Abs(x));
  const VF below = hn::IfThenElse(hn::Gt(x, hn::Zero(d)), OneMinus(tail), tail);
  return Fma(hn::Mul(x, e), hn::Set(d, kInvSqrt2Pi), below);
}

// dgate = dy * up * slope(gate), dup = dy * value(gate). Results may be the inputs.
template <class Slope, class Value>
HWY_INLINE void MapGated(Slope slope, Value value, const float* gate, const float* up, const float* dy,
                         float* dgate, float* dup, size_t count) {
  const DF d;
  const auto both = [&](VF g, VF u, VF dv, VF* to_gate, VF* to_up) HWY_ATTR {
    *to_gate = hn::Mul(hn::Mul(dv, u), slope(g));
    *to_up = hn::Mul(dv, value(g));
  };
  size_t i = 0;
  VF to_gate, to_up;
  for (; i + kVF <= count; i += kVF) {
    both(hn::LoadU(d, gate + i), hn::LoadU(d, up + i), hn::LoadU(d, dy + i), &to_gate, &to_up);
    hn::StoreU(to_gate, d, dgate + i);
    hn::StoreU(to_up, d, dup + i);
  }
  if (i == count) return;
  both(LoadTail(gate + i, count - i), LoadTail(up + i, count - i), LoadTail(dy + i, count - i), &to_gate,
       &to_up);
  StoreTail(to_gate, dgate + i, count - i);
  StoreTail(to_up, dup + i, count - i);
}

void relu_slope(const float* y, const float* dy, float* dx, size_t n) {
  Map([](VF v, VF g) HWY_ATTR { return hn::IfThenElseZero(hn::Gt(v, hn::Zero(DF())), g); }, dx, n, y, dy);
}
void sigmoid_slope(const float* y, const float* dy, float* dx, size_t n) {
  Map([](VF v, VF g) HWY_ATTR { return hn::Mul(g, hn::Mul(v, OneMinus(v))); }, dx, n, y, dy);
}
void tanh_slope(const float* y, const float* dy, float* dx, size_t n) {
  Map([](VF v, VF g) HWY_ATTR { return hn::Mul(g, Fma(hn::Neg(v), v, hn::Set(DF(), 1.0f))); }, dx, n, y, dy);
}
void silu_slope(const float* x, const float* dy, float* dx, size_t n) {
  MapPrefetched([](VF v, VF g) HWY_ATTR { return hn::Mul(g, SiluSlope(v)); }, dx, n, x, dy);
}
void gelu_slope(const float* x, const float* dy, float* dx, size_t n) {
  MapPrefetched([](VF v, VF g) HWY_ATTR { return hn::Mul(g, GeluSlope(v)); }, dx, n, x, dy);
}
void gelu_erf_slope(const float* x, const float* dy, float* dx, size_t n) {
  MapPrefetched([](VF v, VF g) HWY_ATTR { return hn::Mul(g, GeluErfSlope(v)); }, dx, n, x, dy);
}
void swiglu_slopes(const float* gate, const float* up, const float* dy, float* dgate, float* dup, size_t n) {
  MapGated([](VF g) HWY_ATTR { return SiluSlope(g); }, [](VF g) HWY_ATTR { return Silu(g); }, gate, up, dy,
           dgate, dup, n);
}
void geglu_slopes(const float* gate, const float* up, const float* dy, float* dgate, float* dup, size_t n) {
  MapGated([](VF g) HWY_ATTR { return GeluSlope(g); }, [](VF g) HWY_ATTR { return Gelu(g); }, gate, up, dy,
           dgate, dup, n);
}
void softmax_slope(const float* y, const float* dy, float* dx, size_t n) {
  const VF total =
      hn::Set(DF(), SumLanes([](VF lane, VF v, VF g) HWY_ATTR { return Fma(v, g, lane); }, n, y, dy));
  Map([total](VF v, VF g) HWY_ATTR { return hn::Mul(v, hn::Sub(g, total)); }, dx, n, y, dy);
}

#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(relu_slope);
HWY_EXPORT(sigmoid_slope);
HWY_EXPORT(tanh_slope);
HWY_EXPORT(silu_slope);
HWY_EXPORT(gelu_slope);
HWY_EXPORT(gelu_erf_slope);
HWY_EXPORT(swiglu_slopes);
HWY_EXPORT(geglu_slopes);
HWY_EXPORT(softmax_slope);
}  // namespace

void relu_backward(const float* y, const float* dy, float* dx, size_t count) {
  HWY_DYNAMIC_DISPATCH(relu_slope)(y, dy, dx, count);
}
void sigmoid_backward(const float* y, const float* dy, float* dx, size_t count) {
  HWY_DYNAMIC_DISPATCH(sigmoid_slope)(y, dy, dx, count);
}
void tanh_backward(const float* y, const float* dy, float* dx, size_t count) {
  HWY_DYNAMIC_DISPATCH(tanh_slope)(y, dy, dx, count);
}
void silu_backward(const float* x, const float* dy, float* dx, size_t count) {
  HWY_DYNAMIC_DISPATCH(silu_slope)(x, dy, dx, count);
}
void gelu_backward(const float* x, const float* dy, float* dx, size_t count) {
  HWY_DYNAMIC_DISPATCH(gelu_slope)(x, dy, dx, count);
}
void gelu_erf_backward(const float* x, const float* dy, float* dx, size_t count) {
  HWY_DYNAMIC_DISPATCH(gelu_erf_slope)(x, dy, dx, count);
}
void swiglu_backward(const float* gate, const float* up, const float* dy, float* dgate, float* dup,
                     size_t count) {
  HWY_DYNAMIC_DISPATCH(swiglu_slopes)(gate, up, dy, dgate, dup, count);
}
void geglu_backward(const float* gate, const float* up, const float* dy, float* dgate, float* dup,
                    size_t count) {
  HWY_DYNAMIC_DISPATCH(geglu_slopes)(gate, up, dy, dgate, dup, count);
}
void softmax_backward(const float* y, const float* dy, float* dx, size_t count) {
  HWY_DYNAMIC_DISPATCH(softmax_slope)(y, dy, dx, count);
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
