#include "kernels/recurrent/selective_state_backward.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrent/selective_state_backward.cc"
#include "hwy/foreach_target.h"
#include "kernels/recurrent/panel_sums-inl.h"
#include "kernels/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// `P` panels from `panel` on. Parts of the sums are begun by the first panel, and gone on with by the others.
template <size_t P>
HWY_INLINE void SelectivePanelsBack(const SelectiveShape& shape, const float* before,
                                    const SelectiveToken& token, float* gradient, const SelectiveGradient& to,
                                    float* spare, size_t panel, VF* decay_parts, VF* dt_parts) {
  constexpr size_t kVectors = P * kPanelVectors;
  const DF d;
  const size_t stride = shape.state_dim * kSelectivePanel;  // from panel to panel
  const float* read = before + panel * stride;
  float* g = gradient + panel * stride;
  float *b_parts = spare, *c_parts = spare + kSelectivePanel * shape.state_dim;
  const auto at = [&](size_t i, size_t x) {
    return x / kPanelVectors * stride + i * kSelectivePanel + x % kPanelVectors * kVF;
  };
  const VF decay = hn::Set(d, token.decay), dt = hn::Set(d, token.dt), skip = hn::Set(d, shape.skip);
  VF u[kVectors], dout[kVectors], slope[kVectors], fading[kVectors];
  BF_UNROLL
  for (size_t x = 0; x < kVectors; ++x) {
    const size_t column = panel * kSelectivePanel + x * kVF;
    u[x] = hn::Mul(hn::LoadU(d, token.x + column), dt);
    dout[x] = hn::LoadU(d, to.dout + column);
    slope[x] = fading[x] = hn::Zero(d);
  }
  for (size_t i = 0; i < shape.state_dim; ++i) {
    const VF b = hn::Set(d, token.b[i]), c = hn::Set(d, token.c[i]);
    VF b_sum[kPanelVectors], c_sum[kPanelVectors];
    BF_UNROLL
    for (size_t p = 0; p < kPanelVectors; ++p) {
      const size_t part = i * kSelectivePanel + p * kVF;
      b_sum[p] = panel == 0 ? hn::Zero(d) : hn::LoadU(d, b_parts + part);
      c_sum[p] = panel == 0 ? hn::Zero(d) : hn::LoadU(d, c_parts + part);
    }
    BF_UNROLL
    for (size_t x = 0; x < kVectors; ++x) {
      const size_t p = x % kPanelVectors;
      const VF s = hn::LoadU(d, read + at(i, x));
      const VF grown = Fma(c, dout[x], hn::LoadU(d, g + at(i, x)));
      c_sum[p] = Fma(Fma(b, u[x], hn::Mul(s, decay)), dout[x], c_sum[p]);
      b_sum[p] = Fma(grown, u[x], b_sum[p]);
      slope[x] = Fma(grown, b, slope[x]);
      fading[x] = Fma(grown, s, fading[x]);
      hn::StoreU(hn::Mul(grown, decay), d, g + at(i, x));
    }
    BF_UNROLL
    for (size_t p = 0; p < kPanelVectors; ++p) {
      const size_t part = i * kSelectivePanel + p * kVF;
      hn::StoreU(b_sum[p], d, b_parts + part);
      hn::StoreU(c_sum[p], d, c_parts + part);
    }
  }
  BF_UNROLL
  for (size_t x = 0; x < kVectors; ++x) {
    const size_t column = panel * kSelectivePanel + x * kVF, p = x % kPanelVectors;
    hn::StoreU(Fma(slope[x], dt, hn::Mul(dout[x], skip)), d, to.dx + column);
    dt_parts[p] = Fma(slope[x], hn::LoadU(d, token.x + column), dt_parts[p]);
    decay_parts[p] = hn::Add(decay_parts[p], fading[x]);
  }
}

#endif

void selective_state_backward(const SelectiveShape& shape, const float* before, const SelectiveToken& token,
                              float* gradient, SelectiveGradient& to, float* spare) {
#if HWY_TARGET == HWY_SCALAR
  ref::selective_state_backward(shape, before, token, gradient, to, spare);
#else
  constexpr size_t kAtOnce = kVF == 16 ? 4 : 2;  // panels: what registers hold
  VF decay_parts[kPanelVectors], dt_parts[kPanelVectors];
  BF_UNROLL
  for (size_t p = 0; p < kPanelVectors; ++p) decay_parts[p] = dt_parts[p] = hn::Zero(DF());
  const size_t panels = shape.head_dim / kSelectivePanel;
  size_t panel = 0;
  for (; panel + kAtOnce <= panels; panel += kAtOnce)
    SelectivePanelsBack<kAtOnce>(shape, before, token, gradient, to, spare, panel, decay_parts, dt_parts);
  for (; panel < panels; ++panel)
    SelectivePanelsBack<1>(shape, before, token, gradient, to, spare, panel, decay_parts, dt_parts);
  AddPanelTotals(spare, to.db, shape.state_dim);
  AddPanelTotals(spare + kSelectivePanel * shape.state_dim, to.dc, shape.state_dim);
  to.ddecay = PanelTotal(decay_parts);
  to.ddt = PanelTotal(dt_parts);
#endif
}

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(selective_state_backward);
}  // namespace

void selective_state_backward(const SelectiveShape& shape, const float* before, const SelectiveToken& token,
                              float* gradient, SelectiveGradient& to, float* spare) {
  HWY_DYNAMIC_DISPATCH(selective_state_backward)(shape, before, token, gradient, to, spare);
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
