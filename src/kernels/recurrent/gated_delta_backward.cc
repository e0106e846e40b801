#include "kernels/recurrent/gated_delta_backward.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrent/gated_delta_backward.cc"
#include "hwy/foreach_target.h"
#include "kernels/recurrent/panel_sums-inl.h"
#include "kernels/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// `P` panels from `panel` on. Parts of the sums are begun by the first panel, and gone on with by the others.
template <size_t P>
HWY_INLINE void DeltaPanelsBack(const DeltaShape& shape, const float* before, const DeltaToken& token,
                                float* gradient, const DeltaGradient& to, float* spare, size_t panel,
                                VF* decay_parts, VF* beta_parts) {
  constexpr size_t kVectors = P * kPanelVectors;
  const DF d;
  const size_t stride = shape.key_dim * kDeltaPanel;  // from panel to panel
  const float* read = before + panel * stride;
  float* g = gradient + panel * stride;
  float *q_parts = spare, *k_parts = spare + kDeltaPanel * shape.key_dim;
  const auto at = [&](size_t i, size_t x) {
    return x / kPanelVectors * stride + i * kDeltaPanel + x % kPanelVectors * kVF;
  };
  const VF decay = hn::Set(d, token.decay), beta = hn::Set(d, token.beta), scale = hn::Set(d, shape.scale);
  VF asked[kVectors], said[kVectors], slope[kVectors];
  BF_UNROLL
  for (size_t x = 0; x < kVectors; ++x) {
    asked[x] = hn::Mul(hn::LoadU(d, to.dout + panel * kDeltaPanel + x * kVF), scale);
    said[x] = slope[x] = hn::Zero(d);
  }
  for (size_t i = 0; i < shape.key_dim; ++i) {
    const VF k = hn::Set(d, token.k[i]), q = hn::Set(d, token.q[i]);
    BF_UNROLL
    for (size_t x = 0; x < kVectors; ++x) {
      said[x] = Fma(hn::Mul(hn::LoadU(d, read + at(i, x)), decay), k, said[x]);
      const VF grown = Fma(q, asked[x], hn::LoadU(d, g + at(i, x)));
      hn::StoreU(grown, d, g + at(i, x));
      slope[x] = Fma(grown, k, slope[x]);
    }
  }
  VF delta[kVectors], back[kVectors], fading[kVectors];  // `back`: minus dv
  BF_UNROLL
  for (size_t x = 0; x < kVectors; ++x) {
    const size_t column = panel * kDeltaPanel + x * kVF;
    const VF error = hn::Sub(hn::LoadU(d, token.v + column), said[x]);
    const VF dv = hn::Mul(beta, slope[x]);
    hn::StoreU(dv, d, to.dv + column);
    delta[x] = hn::Mul(beta, error);
    back[x] = hn::Neg(dv);
    beta_parts[x % kPanelVectors] = Fma(slope[x], error, beta_parts[x % kPanelVectors]);
    fading[x] = hn::Zero(d);
  }
  for (size_t i = 0; i < shape.key_dim; ++i) {
    const VF k = hn::Set(d, token.k[i]);
    VF q_sum[kPanelVectors], k_sum[kPanelVectors];
    BF_UNROLL
    for (size_t p = 0; p < kPanelVectors; ++p) {
      const size_t part = i * kDeltaPanel + p * kVF;
      q_sum[p] = panel == 0 ? hn::Zero(d) : hn::LoadU(d, q_parts + part);
      k_sum[p] = panel == 0 ? hn::Zero(d) : hn::LoadU(d, k_parts + part);
    }
    BF_UNROLL
    for (size_t x = 0; x < kVectors; ++x) {
      const size_t p = x % kPanelVectors;
      const VF s = hn::LoadU(d, read + at(i, x)), grown = hn::LoadU(d, g + at(i, x));
      const VF faded = hn::Mul(s, decay);
      q_sum[p] = Fma(Fma(k, delta[x], faded), asked[x], q_sum[p]);
      k_sum[p] = Fma(faded, back[x], Fma(grown, delta[x], k_sum[p]));
      const VF corrected = Fma(k, back[x], grown);
      fading[x] = Fma(corrected, s, fading[x]);
      hn::StoreU(hn::Mul(corrected, decay), d, g + at(i, x));
    }
    BF_UNROLL
    for (size_t p = 0; p < kPanelVectors; ++p) {
      const size_t part = i * kDeltaPanel + p * kVF;
      hn::StoreU(q_sum[p], d, q_parts + part);
      hn::StoreU(k_sum[p], d, k_parts + part);
    }
  }
  BF_UNROLL
  for (size_t x = 0; x < kVectors; ++x)
    decay_parts[x % kPanelVectors] = hn::Add(decay_parts[x % kPanelVectors], fading[x]);
}

#endif

void gated_delta_backward(const DeltaShape& shape, const float* before, const DeltaToken& token,
                          float* gradient, DeltaGradient& to, float* spare) {
#if HWY_TARGET == HWY_SCALAR
  ref::gated_delta_backward(shape, before, token, gradient, to, spare);
#else
  constexpr size_t kAtOnce = kVF == 16 ? 4 : 2;  // panels: what registers hold
  VF decay_parts[kPanelVectors], beta_parts[kPanelVectors];
  BF_UNROLL
  for (size_t p = 0; p < kPanelVectors; ++p) decay_parts[p] = beta_parts[p] = hn::Zero(DF());
  const size_t panels = shape.value_dim / kDeltaPanel;
  size_t panel = 0;
  for (; panel + kAtOnce <= panels; panel += kAtOnce)
    DeltaPanelsBack<kAtOnce>(shape, before, token, gradient, to, spare, panel, decay_parts, beta_parts);
  for (; panel < panels; ++panel)
    DeltaPanelsBack<1>(shape, before, token, gradient, to, spare, panel, decay_parts, beta_parts);
  AddPanelTotals(spare, to.dq, shape.key_dim);
  AddPanelTotals(spare + kDeltaPanel * shape.key_dim, to.dk, shape.key_dim);
  to.ddecay = PanelTotal(decay_parts);
  to.dbeta = PanelTotal(beta_parts);
#endif
}

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(gated_delta_backward);
}  // namespace

void gated_delta_backward(const DeltaShape& shape, const float* before, const DeltaToken& token,
                          float* gradient, DeltaGradient& to, float* spare) {
  HWY_DYNAMIC_DISPATCH(gated_delta_backward)(shape, before, token, gradient, to, spare);
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
