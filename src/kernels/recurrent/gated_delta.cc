#include "kernels/recurrent/gated_delta.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrent/gated_delta.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// All tokens over `P` panels from the first one on: they stay in the nearest cache.
template <size_t P>
HWY_INLINE void DeltaPanels(const DeltaShape& shape, const float* from, float* to, const DeltaToken* tokens,
                            size_t count, size_t panel) {
  constexpr size_t kVectors = P * kDeltaPanel / kVF, kPerPanel = kDeltaPanel / kVF;
  const DF d;
  const size_t stride = shape.key_dim * kDeltaPanel;  // from panel to panel
  const float* read = from + panel * stride;
  float* write = to + panel * stride;
  const auto at = [&](size_t i, size_t x) {
    return x / kPerPanel * stride + i * kDeltaPanel + x % kPerPanel * kVF;
  };
  for (size_t n = 0; n < count; ++n) {
    const DeltaToken& token = tokens[n];
    const VF decay = hn::Set(d, token.decay), beta = hn::Set(d, token.beta);
    VF sums[kVectors];
    BF_UNROLL
    for (size_t x = 0; x < kVectors; ++x) sums[x] = hn::Zero(d);
    for (size_t i = 0; i < shape.key_dim; ++i) {
      const VF k = hn::Set(d, token.k[i]);
      BF_UNROLL
      for (size_t x = 0; x < kVectors; ++x)
        sums[x] = Fma(hn::Mul(hn::LoadU(d, read + at(i, x)), decay), k, sums[x]);
    }
    VF delta[kVectors];
    BF_UNROLL
    for (size_t x = 0; x < kVectors; ++x) {
      const VF v = hn::LoadU(d, token.v + panel * kDeltaPanel + x * kVF);
      delta[x] = hn::Mul(beta, hn::Sub(v, sums[x]));
      sums[x] = hn::Zero(d);
    }
    for (size_t i = 0; i < shape.key_dim; ++i) {
      const VF k = hn::Set(d, token.k[i]), q = hn::Set(d, token.q[i]);
      BF_UNROLL
      for (size_t x = 0; x < kVectors; ++x) {
        const VF s = Fma(k, delta[x], hn::Mul(hn::LoadU(d, read + at(i, x)), decay));
        hn::StoreU(s, d, write + at(i, x));
        sums[x] = Fma(s, q, sums[x]);
      }
    }
    read = write;
    if (token.out == nullptr) continue;
    BF_UNROLL
    for (size_t x = 0; x < kVectors; ++x)
      hn::StoreU(hn::Mul(sums[x], hn::Set(d, shape.scale)), d, token.out + panel * kDeltaPanel + x * kVF);
  }
}

#endif

void gated_delta(const DeltaShape& shape, const float* from, float* to, const DeltaToken* tokens,
                 size_t count) {
#if HWY_TARGET == HWY_SCALAR
  ref::gated_delta(shape, from, to, tokens, count);
#else
  if (from == nullptr) {
    std::memset(to, 0, shape.state_floats() * sizeof(float));
    from = to;
  }
  const size_t panels = shape.value_dim / kDeltaPanel;
  size_t panel = 0;
  for (; panel + 4 <= panels; panel += 4) DeltaPanels<4>(shape, from, to, tokens, count, panel);
  for (; panel < panels; ++panel) DeltaPanels<1>(shape, from, to, tokens, count, panel);
#endif
}

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(gated_delta);
}  // namespace

void gated_delta(const DeltaShape& shape, const float* from, float* to, const DeltaToken* tokens,
                 size_t count) {
  HWY_DYNAMIC_DISPATCH(gated_delta)(shape, from, to, tokens, count);
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
