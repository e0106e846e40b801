// Attention: pages of Q8_0 blocks.
#include <algorithm>

#include "kernels/activation_rows.h"
#include "kernels/panel_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_q8_0.cc"
#include "hwy/foreach_target.h"
#include "kernels/attention_page-inl.h"
#include "kernels/dot-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// Scores of one query against the 32 keys of a page, as a Q8_0 matmul: exact integer sums per 32 dimensions,
// then one FMA.
HWY_INLINE void Q8Scores(const KvLayout& layout, const std::byte* page, const AttentionState& state,
                         size_t dim, float* scores) {
  const ActLayout act = act_layout(ActKind::kQ8x32, dim);
  const auto* a = reinterpret_cast<const int8_t*>(state.q8);
  const auto* d = reinterpret_cast<const float*>(state.q8 + act.scales_offset);
  const auto* sums = reinterpret_cast<const int16_t*>(state.q8 + act.sums_offset);
  BF_UNROLL
  for (size_t v = 0; v < kBlockVectors; ++v) {
    const size_t lane = v * kVF;
    const auto* quants =
        reinterpret_cast<const uint8_t*>(page) + lane / kPanelRows * layout.key_panel_bytes();
    const auto* scales = reinterpret_cast<const uint16_t*>(quants + panel::q8_0_scales(dim));
    VF acc = hn::Zero(DF());
    for (size_t b = 0; b < dim / 32; ++b) {
      SignedAcc sum = ZeroSignedAcc();
      BF_UNROLL
      for (size_t c = 0; c < 8; ++c)
        sum = StepSigned(sum,
                         MakeSigned(hn::LoadU(D8(), quants + b * panel::kByteSub + c * panel::kChunkBytes +
                                                        lane % kPanelRows * 4)),
                         a + b * 32 + c * 4);
      VI total = FlushSigned(sum);
      if (kSignedOffset != 0)
        total = hn::Sub(total, hn::Set(DI(), kSignedOffset * (sums[2 * b] + sums[2 * b + 1])));
      const VF dk = LoadF16(scales + b * kPanelRows + lane % kPanelRows);
      acc = Fma(hn::ConvertTo(DF(), total), hn::Mul(dk, hn::Set(DF(), d[b])), acc);
    }
    hn::StoreU(acc, DF(), scores + lane);
  }
}

// o = o * c, then o = fma(p[j] * scale, v[j], o) for the visible j.
HWY_INLINE void Q8Values(const KvLayout& layout, const std::byte* page, const AttentionState& state,
                         KeyRange keys, const float* weights, float factor) {
  const hn::Rebind<int8_t, DI> d8;
  const auto* values = reinterpret_cast<const int8_t*>(page + layout.values_offset());
  const auto* scales = reinterpret_cast<const uint16_t*>(page + layout.value_scales_offset());
  const size_t blocks = layout.head_dim / 32;
  constexpr size_t kWide = 32 / kVF;
  for (size_t b = 0; b < blocks; ++b) {
    VF acc[kWide];
    BF_UNROLL
    for (size_t w = 0; w < kWide; ++w)
      acc[w] = hn::Mul(hn::LoadU(DF(), state.o + b * 32 + w * kVF), hn::Set(DF(), factor));
    for (size_t j = keys.begin; j < keys.end; ++j) {
      const VF p = hn::Set(DF(), weights[j] * f16_to_f32(scales[j * blocks + b]));
      BF_UNROLL
      for (size_t w = 0; w < kWide; ++w) {
        const auto q = hn::LoadU(d8, values + j * layout.padded_dim() + b * 32 + w * kVF);
        acc[w] = Fma(p, hn::ConvertTo(DF(), hn::PromoteTo(DI(), q)), acc[w]);
      }
    }
    BF_UNROLL
    for (size_t w = 0; w < kWide; ++w) hn::StoreU(acc[w], DF(), state.o + b * 32 + w * kVF);
  }
}

void JoinPageQ8_0(const KvLayout& layout, const AttentionParams& params, const std::byte* page,
                  AttentionState* states, size_t count, KeyRange keys, std::byte* /*wide*/) {
  for (size_t first = 0; first < count; first += kWeighMax) {
    const size_t some = std::min(kWeighMax, count - first);
    alignas(64) float scores[kWeighMax][kKvPage];
    float factors[kWeighMax];
    for (size_t m = 0; m < some; ++m) Q8Scores(layout, page, states[first + m], layout.head_dim, scores[m]);
    Weigh(params, states + first, some, keys, scores, factors);
    for (size_t m = 0; m < some; ++m) Q8Values(layout, page, states[first + m], keys, scores[m], factors[m]);
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
