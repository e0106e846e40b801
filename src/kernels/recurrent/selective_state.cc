#include "kernels/recurrent/selective_state.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrent/selective_state.cc"
#include "hwy/foreach_target.h"
#include "kernels/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// All tokens over `P` panels from the first one on: they stay in the nearest cache.
template <size_t P>
HWY_INLINE void SelectivePanels(const SelectiveShape& shape, const float* from, float* to,
                                const SelectiveToken* tokens, size_t count, size_t panel) {
  constexpr size_t kVectors = P * kSelectivePanel / kVF, kPerPanel = kSelectivePanel / kVF;
  const DF d;
  const size_t stride = shape.state_dim * kSelectivePanel;  // from panel to panel
  const float* read = from + panel * stride;
  float* write = to + panel * stride;
  const auto at = [&](size_t i, size_t v) {
    return v / kPerPanel * stride + i * kSelectivePanel + v % kPerPanel * kVF;
  };
  for (size_t n = 0; n < count; ++n) {
    const SelectiveToken& token = tokens[n];
    const VF decay = hn::Set(d, token.decay), dt = hn::Set(d, token.dt);
    const float* x = token.x + panel * kSelectivePanel;
    VF brought[kVectors], sums[kVectors];
    BF_UNROLL
    for (size_t v = 0; v < kVectors; ++v) {
      brought[v] = hn::Mul(hn::LoadU(d, x + v * kVF), dt);
      sums[v] = hn::Zero(d);
    }
    for (size_t i = 0; i < shape.state_dim; ++i) {
      const VF b = hn::Set(d, token.b[i]), c = hn::Set(d, token.c[i]);
      BF_UNROLL
      for (size_t v = 0; v < kVectors; ++v) {
        const VF s = Fma(b, brought[v], hn::Mul(hn::LoadU(d, read + at(i, v)), decay));
        hn::StoreU(s, d, write + at(i, v));
        sums[v] = Fma(s, c, sums[v]);
      }
    }
    read = write;
    if (token.out == nullptr) continue;
    float* out = token.out + panel * kSelectivePanel;
    BF_UNROLL
    for (size_t v = 0; v < kVectors; ++v)
      hn::StoreU(Fma(hn::LoadU(d, x + v * kVF), hn::Set(d, shape.skip), sums[v]), d, out + v * kVF);
  }
}

#endif

void selective_state(const SelectiveShape& shape, const float* from, float* to, const SelectiveToken* tokens,
                     size_t count) {
#if HWY_TARGET == HWY_SCALAR
  ref::selective_state(shape, from, to, tokens, count);
#else
  if (from == nullptr) {
    std::memset(to, 0, shape.state_floats() * sizeof(float));
    from = to;
  }
  const size_t panels = shape.head_dim / kSelectivePanel;
  size_t panel = 0;
  for (; panel + 4 <= panels; panel += 4) SelectivePanels<4>(shape, from, to, tokens, count, panel);
  for (; panel < panels; ++panel) SelectivePanels<1>(shape, from, to, tokens, count, panel);
#endif
}

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(selective_state);
}  // namespace

void selective_state(const SelectiveShape& shape, const float* from, float* to, const SelectiveToken* tokens,
                     size_t count) {
  HWY_DYNAMIC_DISPATCH(selective_state)(shape, from, to, tokens, count);
}

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
