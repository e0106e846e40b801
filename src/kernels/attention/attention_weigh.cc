// Attention: the running softmax of one query over a page.
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_weigh.cc"
#include "hwy/foreach_target.h"
#include "kernels/attention/attention_page-inl.h"
#include "kernels/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// Scores to weights; returns their tree sum.
HWY_INLINE float WeighOne(const AttentionParams& params, float old_max, KeyRange keys, float* scores,
                          float* new_max) {
  const DF d;
  for (size_t j = 0; j < keys.begin; ++j) scores[j] = -std::numeric_limits<float>::infinity();
  for (size_t j = keys.end; j < kKvPage; ++j) scores[j] = -std::numeric_limits<float>::infinity();
  VF s[kBlockVectors];
  VF most = hn::Set(d, old_max);
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
  *new_max = hn::GetLane(hn::MaxOfLanes(d, most));
  const VF shift = hn::Set(d, *new_max);
  LaneSums sums;
  BF_UNROLL
  for (size_t v = 0; v < kBlockVectors; ++v) {
    sums.v[v] = Exp(hn::Sub(s[v], shift));
    hn::StoreU(sums.v[v], d, scores + v * kVF);
  }
  return sums.Total();
}

void Weigh(const AttentionParams& params, AttentionState* states, size_t count, KeyRange keys,
           float (*scores)[kKvPage], float* factors) {
  const DF d;
  constexpr size_t kLanes = HWY_MAX(kVF, kWeighMax);
  alignas(64) float new_max[kLanes] = {}, shrink[kLanes] = {};
  float sums[kWeighMax];
  for (size_t m = 0; m < count; ++m) {
    sums[m] = WeighOne(params, states[m].max, keys, scores[m], new_max + m);
    shrink[m] = states[m].max - new_max[m];
  }
  for (size_t i = 0; i < count; i += kVF) hn::Store(Exp(hn::Load(d, shrink + i)), d, shrink + i);
  for (size_t m = 0; m < count; ++m) {
    factors[m] = shrink[m];
    states[m].advance(new_max[m], shrink[m], sums[m]);
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
