// Attention: the running softmax of one query over a page.
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_weigh.cc"
#include "hwy/foreach_target.h"
#include "kernels/attention_page-inl.h"
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

float Weigh(const AttentionParams& params, AttentionState& state, KeyRange keys, float* scores) {
  const DF d;
  for (size_t j = 0; j < keys.begin; ++j) scores[j] = -std::numeric_limits<float>::infinity();
  for (size_t j = keys.end; j < kKvPage; ++j) scores[j] = -std::numeric_limits<float>::infinity();
  VF s[kBlockVectors];
  VF most = hn::Set(d, state.max);
  BF_UNROLL
  for (size_t v = 0; v < kBlockVectors; ++v) {
    s[v] = hn::LoadU(d, scores + v * kVF);
    if (params.soft_cap > 0) {
      const VF cap = hn::Set(d, params.soft_cap);
      const auto hidden = hn::Eq(s[v], hn::Set(d, -std::numeric_limits<float>::infinity()));
      s[v] = hn::IfThenElse(hidden, s[v], hn::Mul(cap, Tanh(hn::Div(s[v], cap))));
    }
    most = hn::Max(most, s[v]);
  }
  const float max = hn::GetLane(hn::MaxOfLanes(d, most));
  const VF shift = hn::Set(d, max);
  LaneSums sums;
  BF_UNROLL
  for (size_t v = 0; v < kBlockVectors; ++v) {
    sums.v[v] = Exp(hn::Sub(s[v], shift));
    hn::StoreU(sums.v[v], d, scores + v * kVF);
  }
  return state.advance(max, sums.Total());
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
