#include "kernels/norm/layer_norm.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/layer_norm.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/vector_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

void layer_norm(const float* x, const float* weight, const float* bias, float eps, float* out, size_t count) {
#if HWY_TARGET == HWY_SCALAR
  ref::layer_norm(x, weight, bias, eps, out, count);
#else
  if (count == 0) return;
  const DF d;
  const auto n = static_cast<float>(count);
  const float total = SumLanes([](VF lane, VF v) HWY_ATTR { return hn::Add(lane, v); }, count, x);
  const VF mean = hn::Set(d, total / n);
  const float squares = SumLanes(
      [mean](VF lane, VF v) HWY_ATTR {
        const VF centred = hn::Sub(v, mean);
        return Fma(centred, centred, lane);
      },
      count, x);
  const VF s = hn::Set(d, 1.0f / std::sqrt(squares / n + eps));
  const auto unit = [mean, s](VF v) HWY_ATTR { return hn::Mul(hn::Sub(v, mean), s); };
  if (weight != nullptr && bias != nullptr) {
    Map([unit](VF v, VF w, VF b) HWY_ATTR { return Fma(unit(v), w, b); }, out, count, x, weight, bias);
  } else if (weight != nullptr) {
    Map([unit](VF v, VF w) HWY_ATTR { return hn::Mul(unit(v), w); }, out, count, x, weight);
  } else if (bias != nullptr) {
    Map([unit](VF v, VF b) HWY_ATTR { return hn::Add(unit(v), b); }, out, count, x, bias);
  } else {
    Map(unit, out, count, x);
  }
#endif
}

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(layer_norm);
}  // namespace

void layer_norm(const float* x, const float* weight, const float* bias, float eps, float* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(layer_norm)(x, weight, bias, eps, out, count);
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
