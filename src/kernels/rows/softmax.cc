#include "kernels/rows/softmax.h"

#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows/softmax.cc"
#include "hwy/foreach_target.h"
#include "kernels/math/math-inl.h"
#include "kernels/simd/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void softmax(float* row, size_t count) { ref::softmax(row, count); }
void soft_cap(float* x, float cap, size_t count) { ref::soft_cap(x, cap, count); }

#else

void softmax(float* row, size_t count) {
  const DF d;
  const float largest = MaxValue(row, count);
  // All masked: exp(-infinity - 0) is 0 everywhere, and there is nothing to divide.
  const bool masked = largest == -std::numeric_limits<float>::infinity();
  const VF shift = hn::Set(d, masked ? 0.0f : largest);
  Map([shift](VF x) HWY_ATTR { return Exp(hn::Sub(x, shift)); }, row, count, row);
  const float total = SumLanes([](VF lane, VF x) HWY_ATTR { return hn::Add(lane, x); }, count, row);
  if (total == 0.0f) return;
  const VF factor = hn::Set(d, 1.0f / total);
  Map([factor](VF x) HWY_ATTR { return hn::Mul(x, factor); }, row, count, row);
}

void soft_cap(float* x, float cap, size_t count) {
  Map([cap](VF v) HWY_ATTR { return SoftCap(v, cap); }, x, count, x);
}

#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(softmax);
HWY_EXPORT(soft_cap);
}  // namespace

void softmax(float* row, size_t count) { HWY_DYNAMIC_DISPATCH(softmax)(row, count); }
void soft_cap(float* x, float cap, size_t count) { HWY_DYNAMIC_DISPATCH(soft_cap)(x, cap, count); }

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
