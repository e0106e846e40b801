#include "kernels/rows/reduce.h"

#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows/reduce.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

float dot(const float* a, const float* b, size_t count) { return ref::dot(a, b, count); }
float sum(const float* a, size_t count) { return ref::sum(a, count); }
float sum_squares(const float* a, size_t count) { return ref::sum_squares(a, count); }
float max_value(const float* a, size_t count) { return ref::max_value(a, count); }
size_t argmax(const float* a, size_t count) { return ref::argmax(a, count); }

#else

float dot(const float* a, const float* b, size_t count) {
  return SumLanes([](VF lane, VF x, VF y) HWY_ATTR { return Fma(x, y, lane); }, count, a, b);
}
float sum(const float* a, size_t count) {
  return SumLanes([](VF lane, VF x) HWY_ATTR { return hn::Add(lane, x); }, count, a);
}
float sum_squares(const float* a, size_t count) { return SumSquares(a, count); }
float max_value(const float* a, size_t count) { return MaxValue(a, count); }

size_t argmax(const float* a, size_t count) {
  const DF d;
  const VF largest = hn::Set(d, MaxValue(a, count));
  size_t i = 0;
  for (; i + kVF <= count; i += kVF) {
    const intptr_t lane = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, a + i), largest));
    if (lane >= 0) return i + static_cast<size_t>(lane);
  }
  if (i < count) {
    const auto equal = hn::And(hn::Eq(LoadTail(a + i, count - i), largest), hn::FirstN(d, count - i));
    const intptr_t lane = hn::FindFirstTrue(d, equal);
    if (lane >= 0) return i + static_cast<size_t>(lane);
  }
  return 0;
}

#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(dot);
HWY_EXPORT(sum);
HWY_EXPORT(sum_squares);
HWY_EXPORT(max_value);
HWY_EXPORT(argmax);
}  // namespace

float dot(const float* a, const float* b, size_t count) { return HWY_DYNAMIC_DISPATCH(dot)(a, b, count); }
float sum(const float* a, size_t count) { return HWY_DYNAMIC_DISPATCH(sum)(a, count); }
float sum_squares(const float* a, size_t count) { return HWY_DYNAMIC_DISPATCH(sum_squares)(a, count); }
float max_value(const float* a, size_t count) { return HWY_DYNAMIC_DISPATCH(max_value)(a, count); }
size_t argmax(const float* a, size_t count) { return HWY_DYNAMIC_DISPATCH(argmax)(a, count); }

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
