// The vector form of Epilogue: a row of finished sums.
#if defined(BUTTERFLY_KERNELS_EPILOGUE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BUTTERFLY_KERNELS_EPILOGUE_INL_H_
#undef BUTTERFLY_KERNELS_EPILOGUE_INL_H_
#else
#define BUTTERFLY_KERNELS_EPILOGUE_INL_H_
#endif

#include "kernels/gemm/epilogue.h"
#include "kernels/math/math-inl.h"
#include "kernels/simd/vector_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

HWY_INLINE bool HasEffect(const Epilogue& epilogue) {
  return epilogue.bias != nullptr || epilogue.before != nullptr ||
         epilogue.activation != FusedActivation::kNone;
}

// `count` sums of columns column, column + 1 ... go to `out`, which may be `sums`; `at` is where the row
// stands in the whole result, for `before`.
inline HWY_NOINLINE void FinishRow(const Epilogue& epilogue, const float* sums, size_t column, size_t at,
                                   size_t count, float* out) {
  const float* from = sums;
  if (epilogue.bias != nullptr) {
    float* to = epilogue.before != nullptr ? epilogue.before + at : out;
    Map([](VF x, VF b) HWY_ATTR { return hn::Add(x, b); }, to, count, from, epilogue.bias + column);
    from = to;
  } else if (epilogue.before != nullptr) {
    std::memcpy(epilogue.before + at, from, count * sizeof(float));
  }
  if (epilogue.activation == FusedActivation::kRelu) {
    Map([](VF x) HWY_ATTR { return ClampBelow(x, 0.0f); }, out, count, from);
  } else if (epilogue.activation == FusedActivation::kGelu) {
    Map([](VF x) HWY_ATTR { return Gelu(x); }, out, count, from);
  } else if (from != out) {
    std::memcpy(out, from, count * sizeof(float));
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
