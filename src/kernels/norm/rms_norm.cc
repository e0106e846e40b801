#include "kernels/norm/rms_norm.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/rms_norm.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

void rms_norm(const float* x, const float* weight, float eps, float* out, size_t count) {
#if HWY_TARGET == HWY_SCALAR
  ref::rms_norm(x, weight, eps, out, count);
#else
  if (count == 0) return;
  const float mean = SumSquares(x, count) / static_cast<float>(count);
  const VF s = hn::Set(DF(), 1.0f / std::sqrt(mean + eps));
  if (weight == nullptr) {
    Map([s](VF v) HWY_ATTR { return hn::Mul(v, s); }, out, count, x);
  } else {
    Map([s](VF v, VF w) HWY_ATTR { return hn::Mul(hn::Mul(v, s), w); }, out, count, x, weight);
  }
#endif
}

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(rms_norm);
}  // namespace

void rms_norm(const float* x, const float* weight, float eps, float* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(rms_norm)(x, weight, eps, out, count);
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
