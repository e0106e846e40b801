#include "kernels/elementwise/activation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/activation.cc"
#include "hwy/foreach_target.h"
#include "kernels/math/math-inl.h"
#include "kernels/simd/vector_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void relu(const float* a, float* out, size_t count) { ref::relu(a, out, count); }
void sigmoid(const float* a, float* out, size_t count) { ref::sigmoid(a, out, count); }
void tanh(const float* a, float* out, size_t count) { ref::tanh(a, out, count); }
void silu(const float* a, float* out, size_t count) { ref::silu(a, out, count); }
void gelu(const float* a, float* out, size_t count) { ref::gelu(a, out, count); }
void gelu_erf(const float* a, float* out, size_t count) { ref::gelu_erf(a, out, count); }
void swiglu(const float* gate, const float* up, float* out, size_t count) {
  ref::swiglu(gate, up, out, count);
}
void geglu(const float* gate, const float* up, float* out, size_t count) { ref::geglu(gate, up, out, count); }
void swiglu_clamped(const float* gate, const float* up, float* out, size_t count) {
  ref::swiglu_clamped(gate, up, out, count);
}

#else

void relu(const float* a, float* out, size_t count) {
  Map([](VF x) HWY_ATTR { return ClampBelow(x, 0.0f); }, out, count, a);
}
void sigmoid(const float* a, float* out, size_t count) {
  Map([](VF x) HWY_ATTR { return Sigmoid(x); }, out, count, a);
}
void tanh(const float* a, float* out, size_t count) {
  Map([](VF x) HWY_ATTR { return Tanh(x); }, out, count, a);
}
void silu(const float* a, float* out, size_t count) {
  Map([](VF x) HWY_ATTR { return Silu(x); }, out, count, a);
}
void gelu(const float* a, float* out, size_t count) {
  Map([](VF x) HWY_ATTR { return Gelu(x); }, out, count, a);
}
void gelu_erf(const float* a, float* out, size_t count) {
  Map([](VF x) HWY_ATTR { return GeluErf(x); }, out, count, a);
}
void swiglu(const float* gate, const float* up, float* out, size_t count) {
  Map([](VF g, VF u) HWY_ATTR { return hn::Mul(Silu(g), u); }, out, count, gate, up);
}
void geglu(const float* gate, const float* up, float* out, size_t count) {
  Map([](VF g, VF u) HWY_ATTR { return hn::Mul(Gelu(g), u); }, out, count, gate, up);
}
void swiglu_clamped(const float* gate, const float* up, float* out, size_t count) {
  Map(
      [](VF gate_value, VF up_value) HWY_ATTR {
        const DF d;
        const VF g = ClampAbove(gate_value, kSwigluLimit);
        const VF u = ClampBelow(ClampAbove(up_value, kSwigluLimit), -kSwigluLimit);
        const VF opened = hn::Mul(g, Sigmoid(hn::Mul(hn::Set(d, kSwigluSlope), g)));
        return hn::Mul(opened, hn::Add(u, hn::Set(d, 1.0f)));
      },
      out, count, gate, up);
}

#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(relu);
HWY_EXPORT(sigmoid);
HWY_EXPORT(tanh);
HWY_EXPORT(silu);
HWY_EXPORT(gelu);
HWY_EXPORT(gelu_erf);
HWY_EXPORT(swiglu);
HWY_EXPORT(geglu);
HWY_EXPORT(swiglu_clamped);
}  // namespace

void relu(const float* a, float* out, size_t count) { HWY_DYNAMIC_DISPATCH(relu)(a, out, count); }
void sigmoid(const float* a, float* out, size_t count) { HWY_DYNAMIC_DISPATCH(sigmoid)(a, out, count); }
void tanh(const float* a, float* out, size_t count) { HWY_DYNAMIC_DISPATCH(tanh)(a, out, count); }
void silu(const float* a, float* out, size_t count) { HWY_DYNAMIC_DISPATCH(silu)(a, out, count); }
void gelu(const float* a, float* out, size_t count) { HWY_DYNAMIC_DISPATCH(gelu)(a, out, count); }
void gelu_erf(const float* a, float* out, size_t count) { HWY_DYNAMIC_DISPATCH(gelu_erf)(a, out, count); }
void swiglu(const float* gate, const float* up, float* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(swiglu)(gate, up, out, count);
}
void geglu(const float* gate, const float* up, float* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(geglu)(gate, up, out, count);
}
void swiglu_clamped(const float* gate, const float* up, float* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(swiglu_clamped)(gate, up, out, count);
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
