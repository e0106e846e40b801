#include "kernels/elementwise/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/elementwise.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/vector_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void add(const float* a, const float* b, float* out, size_t count) { ref::add(a, b, out, count); }
void sub(const float* a, const float* b, float* out, size_t count) { ref::sub(a, b, out, count); }
void mul(const float* a, const float* b, float* out, size_t count) { ref::mul(a, b, out, count); }
void scale(const float* a, float factor, float* out, size_t count) { ref::scale(a, factor, out, count); }
void add_scaled(const float* a, const float* b, float factor, float* out, size_t count) {
  ref::add_scaled(a, b, factor, out, count);
}

#else

template <class F, class... In>
HWY_INLINE void MapLarge(F f, float* out, size_t count, In... in) {
  const bool in_place = ((in == out) || ...);
  if (count * sizeof(float) >= kStreamBytes && !in_place) {
    MapStream(f, out, count, in...);
  } else {
    Map(f, out, count, in...);
  }
}

void add(const float* a, const float* b, float* out, size_t count) {
  MapLarge([](VF x, VF y) HWY_ATTR { return hn::Add(x, y); }, out, count, a, b);
}
void sub(const float* a, const float* b, float* out, size_t count) {
  MapLarge([](VF x, VF y) HWY_ATTR { return hn::Sub(x, y); }, out, count, a, b);
}
void mul(const float* a, const float* b, float* out, size_t count) {
  MapLarge([](VF x, VF y) HWY_ATTR { return hn::Mul(x, y); }, out, count, a, b);
}
void scale(const float* a, float factor, float* out, size_t count) {
  const VF s = hn::Set(DF(), factor);
  MapLarge([s](VF x) HWY_ATTR { return hn::Mul(x, s); }, out, count, a);
}
void add_scaled(const float* a, const float* b, float factor, float* out, size_t count) {
  const VF s = hn::Set(DF(), factor);
  MapLarge([s](VF x, VF y) HWY_ATTR { return Fma(y, s, x); }, out, count, a, b);
}

#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(add);
HWY_EXPORT(sub);
HWY_EXPORT(mul);
HWY_EXPORT(scale);
HWY_EXPORT(add_scaled);
}  // namespace

void add(const float* a, const float* b, float* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(add)(a, b, out, count);
}
void sub(const float* a, const float* b, float* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(sub)(a, b, out, count);
}
void mul(const float* a, const float* b, float* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(mul)(a, b, out, count);
}
void scale(const float* a, float factor, float* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(scale)(a, factor, out, count);
}
void add_scaled(const float* a, const float* b, float factor, float* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(add_scaled)(a, b, factor, out, count);
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
