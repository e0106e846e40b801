#include "kernels/recurrent/causal_conv.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrent/causal_conv.cc"
#include "hwy/foreach_target.h"
#include "kernels/math/math-inl.h"
#include "kernels/simd/vector_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

void causal_conv(const CausalConv& conv, const float* const* x, float* out, size_t count) {
#if HWY_TARGET == HWY_SCALAR
  ref::causal_conv(conv, x, out, count);
#else
  // Channels [i, i + n), n <= kVF.
  const auto some = [&](size_t i, size_t n) HWY_ATTR {
    const auto load = [n](const float* from)
                          HWY_ATTR { return n == kVF ? hn::LoadU(DF(), from) : LoadTail(from, n); };
    VF sum = hn::Mul(load(x[0] + i), load(conv.weights + i));
    for (size_t j = 1; j < conv.taps; ++j)
      sum = Fma(load(x[j] + i), load(conv.weights + j * conv.weight_stride + i), sum);
    if (conv.bias != nullptr) sum = hn::Add(sum, load(conv.bias + i));
    if (conv.silu) sum = Silu(sum);
    if (n == kVF) {
      hn::StoreU(sum, DF(), out + i);
    } else {
      StoreTail(sum, out + i, n);
    }
  };
  size_t i = 0;
  for (; i + kVF <= count; i += kVF) some(i, kVF);
  if (i < count) some(i, count - i);
#endif
}

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(causal_conv);
}  // namespace

void causal_conv(const CausalConv& conv, const float* const* x, float* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(causal_conv)(conv, x, out, count);
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
