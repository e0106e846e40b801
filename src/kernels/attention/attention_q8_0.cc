// Attention: pages of Q8_0 blocks.
#include <algorithm>

#include "kernels/tiles/activation_rows.h"
#include "kernels/tiles/panel_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_q8_0.cc"
#include "hwy/foreach_target.h"
#include "kernels/attention/attention_page-inl.h"
#include "kernels/tiles/dot-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// Scores of one query against the 32 keys of a page, as a Q8_0 matmul: exact integer sums per 32 dimensions,
// then one FMA.
HWY_INLINE void Q8Scores(const KvLayout& layout, Page page, const AttentionState& state, size_t dim,
                         float* scores) {
  const ActLayout act = act_layout(ActKind::kQ8x32, dim);
  const auto* a = reinterpret_cast<const int8_t*>(state.q8);
  const auto* d = reinterpret_cast<const float*>(state.q8 + act.scales_offset);
  const auto* sums = reinterpret_cast<const int16_t*>(state.q8 + act.sums_offset);
  BF_UNROLL
  for (size_t v = 0; v < kBlockVectors; ++v) {
    const size_t lane = v * kVF;
    const auto* quants =
        reinterpret_cast<const uint8_t*>(page.data) + lane / kPanelRows * layout.key_panel_bytes();
    const auto* scales = reinterpret_cast<const uint16_t*>(quants + panel::q8_0_scales(dim));
    VF acc = hn::Zero(DF());
    for (size_t b = 0; b < dim / 32; ++b) {
      SignedAcc sum = ZeroSignedAcc();
      BF_UNROLL
      for (size_t c = 0; c < 8; ++c) {
        const uint8_t* at = quants + b * panel::kByteSub + c * panel::kChunkBytes + lane % kPanelRows * 4;
        page.prefetch_next(at);
        sum = StepSigned(sum, MakeSigned(hn::LoadU(D8(), at)), a + b * 32 + c * 4);
      }
      VI total = FlushSigned(sum);
      if (kSignedOffset != 0)
        total = hn::Sub(total, hn::Set(DI(), kSignedOffset * (sums[2 * b] + sums[2 * b + 1])));
      const VF dk = LoadF16(scales + b * kPanelRows + lane % kPanelRows);
      acc = Fma(hn::ConvertTo(DF(), total), hn::Mul(dk, hn::Set(DF(), d[b])), acc);
    }
    hn::StoreU(acc, DF(), scores + lane);
  }
}

// The value scales of a page as floats, those of one block of 32 dimensions side by side: [blocks][32 keys].
HWY_INLINE void ValueScales(const KvLayout& layout, const std::byte* page, float* by_block) {
  const size_t blocks = layout.values() / 32;
  const auto* scales = reinterpret_cast<const uint16_t*>(page + layout.value_scales_offset());
  for (size_t i = 0; i < kKvPage * blocks; i += kVF) {
    alignas(64) float some[kVF];
    hn::Store(LoadF16(scales + i), DF(), some);
    for (size_t lane = 0; lane < kVF; ++lane)
      by_block[(i + lane) % blocks * kKvPage + (i + lane) / blocks] = some[lane];
  }
}

// o = o * c, then o = fma(p[j] * scale, v[j], o) for the visible j, for kQ queries with the same visible
// keys.
template <size_t kQ>
HWY_INLINE void Q8Values(const KvLayout& layout, Page page, const float* scales, const AttentionState* states,
                         KeyRange keys, float (*weights)[kKvPage], const float* factors) {
  const hn::Rebind<int8_t, DI> d8;
  const auto* values = reinterpret_cast<const int8_t*>(page.data + layout.values_offset());
  constexpr size_t kWide = kQ <= 2 ? 32 / kVF : kQ <= 4 && kVF <= 16 ? 2 : 1;  // independent chains
  for (size_t b = 0; b < layout.values() / 32; ++b) {
    alignas(64) float scaled[kQ][kKvPage];
    BF_UNROLL
    for (size_t m = 0; m < kQ; ++m)
      for (size_t j = 0; j < kKvPage; j += kVF)
        hn::Store(hn::Mul(hn::LoadU(DF(), weights[m] + j), hn::Load(DF(), scales + b * kKvPage + j)), DF(),
                  scaled[m] + j);
    for (size_t k = b * 32; k < b * 32 + 32; k += kVF * kWide) {
      VF acc[kQ][kWide];
      BF_UNROLL
      for (size_t m = 0; m < kQ; ++m) BF_UNROLL
      for (size_t w = 0; w < kWide; ++w)
        acc[m][w] = hn::Mul(hn::LoadU(DF(), states[m].o + k + w * kVF), hn::Set(DF(), factors[m]));
      for (size_t j = keys.begin; j < keys.end; ++j) {
        BF_UNROLL
        for (size_t w = 0; w < kWide; ++w) {
          const int8_t* at = values + j * layout.padded_values() + k + w * kVF;
          page.prefetch_next(at);
          const auto q = hn::LoadU(d8, at);
          const VF v = hn::ConvertTo(DF(), hn::PromoteTo(DI(), q));
          BF_UNROLL
          for (size_t m = 0; m < kQ; ++m) acc[m][w] = Fma(hn::Set(DF(), scaled[m][j]), v, acc[m][w]);
        }
      }
      BF_UNROLL
      for (size_t m = 0; m < kQ; ++m) BF_UNROLL
      for (size_t w = 0; w < kWide; ++w) hn::StoreU(acc[m][w], DF(), states[m].o + k + w * kVF);
    }
  }
}

// Keys as floats, which is exact: bytes times scales of 11 bits.
HWY_INLINE void WidenKeys(const KvLayout& layout, Page page, std::byte* wide) {
  const size_t dim = layout.head_dim;
  for (size_t panel = 0; panel < 2; ++panel) {
    const auto* quants = reinterpret_cast<const uint8_t*>(page.data) + panel * layout.key_panel_bytes();
    const auto* scales = reinterpret_cast<const uint16_t*>(quants + panel::q8_0_scales(dim));
    auto* to = reinterpret_cast<float*>(wide + panel * layout.wide().key_panel_bytes());
    for (size_t b = 0; b < dim / 32; ++b) {
      alignas(64) float d[kPanelRows];
      for (size_t row = 0; row < kPanelRows; row += kVF)
        hn::Store(LoadF16(scales + b * kPanelRows + row), DF(), d + row);
      for (size_t k = 0; k < 32; ++k) {
        const uint8_t* at = quants + b * panel::kByteSub + k / 4 * panel::kChunkBytes + k % 4;
        page.prefetch_next(at);
        for (size_t row = 0; row < kPanelRows; ++row)
          to[(b * 32 + k) * kPanelRows + row] = d[row] * static_cast<float>(static_cast<int8_t>(at[row * 4]));
      }
    }
  }
}

void JoinPageQ8_0(const KvLayout& layout, const AttentionParams& params, Page page, AttentionState* states,
                  size_t count, KeyRange keys, std::byte* wide) {
  if (layout.latent) {
    WidenKeys(layout, page, wide);
    return JoinLatent(layout.wide(), params, states, count, keys, wide);
  }
  auto* scales = reinterpret_cast<float*>(wide);
  ValueScales(layout, page.data, scales);
  for (size_t first = 0; first < count; first += kWeighMax) {
    const size_t some = std::min(kWeighMax, count - first);
    alignas(64) float scores[kWeighMax][kKvPage];
    float factors[kWeighMax];
    for (size_t m = 0; m < some; ++m) Q8Scores(layout, page, states[first + m], layout.head_dim, scores[m]);
    Weigh(params, states + first, some, keys, scores, factors);
    WithQueries(some, [&]<size_t kQ>(size_t m) HWY_ATTR {
      Q8Values<kQ>(layout, page, scales, states + first + m, keys, scores + m, factors + m);
    });
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
