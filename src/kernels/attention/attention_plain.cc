// Attention: pages of floats and half floats.
#include <algorithm>
#include <cstring>

#include "kernels/tiles/panel_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_plain.cc"
#include "hwy/foreach_target.h"
#include "kernels/attention/attention_page-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

struct F32Cache {
  using Value = float;
  static HWY_INLINE VF Load(const float* from) { return hn::LoadU(DF(), from); }
};
struct F16Cache {
  using Value = uint16_t;
  static HWY_INLINE VF Load(const uint16_t* from) { return LoadF16(from); }
};

// Scores of kQ queries against the 32 keys of a page: one chain per key over the head's dimensions.
template <class Cache, size_t kQ>
HWY_INLINE void PlainScores(const KvLayout& layout, Page page, const AttentionState* states, size_t dim,
                            float (*scores)[kKvPage]) {
  using Value = typename Cache::Value;
  const size_t panel_values = layout.key_panel_bytes() / sizeof(Value);
  const auto* keys = reinterpret_cast<const Value*>(page.data);
  VF acc[kQ][kBlockVectors];
  BF_UNROLL
  for (size_t m = 0; m < kQ; ++m) BF_UNROLL
  for (size_t v = 0; v < kBlockVectors; ++v) acc[m][v] = hn::Zero(DF());
  for (size_t k = 0; k < dim; ++k) {
    VF key[kBlockVectors];
    BF_UNROLL
    for (size_t v = 0; v < kBlockVectors; ++v) {
      const size_t lane = v * kVF;
      const Value* at = keys + lane / kPanelRows * panel_values + k * kPanelRows + lane % kPanelRows;
      page.prefetch_next(at);
      key[v] = Cache::Load(at);
    }
    BF_UNROLL
    for (size_t m = 0; m < kQ; ++m) {
      const VF q = hn::Set(DF(), states[m].q[k]);
      BF_UNROLL
      for (size_t v = 0; v < kBlockVectors; ++v) acc[m][v] = Fma(q, key[v], acc[m][v]);
    }
  }
  BF_UNROLL
  for (size_t m = 0; m < kQ; ++m) BF_UNROLL
  for (size_t v = 0; v < kBlockVectors; ++v) hn::StoreU(acc[m][v], DF(), scores[m] + v * kVF);
}

// o = o * c, then o = fma(p[j], v[j], o) for the visible j, for kQ queries with the same visible keys.
template <class Cache, size_t kQ>
HWY_INLINE void PlainValues(const KvLayout& layout, Page page, const AttentionState* states, KeyRange keys,
                            float (*weights)[kKvPage], const float* factors) {
  using Value = typename Cache::Value;
  const size_t dim = layout.padded_values();
  const auto* values = reinterpret_cast<const Value*>(page.data + layout.values_offset());
  constexpr size_t kWide = kQ == 1 && kVF < 16 ? 4 : kQ <= (kVF < 16 ? 2 : 4) ? 2 : 1;  // independent chains
  for (size_t k = 0; k < dim; k += kVF * kWide) {
    const size_t wide = std::min(kWide, (dim - k) / kVF);
    VF acc[kQ][kWide];
    BF_UNROLL
    for (size_t m = 0; m < kQ; ++m) BF_UNROLL
    for (size_t w = 0; w < kWide; ++w)
      acc[m][w] = w < wide ? hn::Mul(hn::LoadU(DF(), states[m].o + k + w * kVF), hn::Set(DF(), factors[m]))
                           : hn::Zero(DF());
    for (size_t j = keys.begin; j < keys.end; ++j) {
      BF_UNROLL
      for (size_t w = 0; w < kWide; ++w) {
        if (w >= wide) continue;
        const Value* at = values + j * dim + k + w * kVF;
        page.prefetch_next(at);
        const VF v = Cache::Load(at);
        BF_UNROLL
        for (size_t m = 0; m < kQ; ++m) acc[m][w] = Fma(hn::Set(DF(), weights[m][j]), v, acc[m][w]);
      }
    }
    BF_UNROLL
    for (size_t m = 0; m < kQ; ++m) BF_UNROLL
    for (size_t w = 0; w < kWide; ++w)
      if (w < wide) hn::StoreU(acc[m][w], DF(), states[m].o + k + w * kVF);
  }
}

// kQ queries that see the same keys of this page.
template <class Cache, size_t kQ>
HWY_INLINE void PlainBlock(const KvLayout& layout, const AttentionParams& params, Page page,
                           AttentionState* states, KeyRange keys) {
  alignas(64) float scores[kQ][kKvPage];
  float factors[kQ];
  PlainScores<Cache, kQ>(layout, page, states, layout.head_dim, scores);
  Weigh(params, states, kQ, keys, scores, factors);
  PlainValues<Cache, kQ>(layout, page, states, keys, scores, factors);
}

template <class Cache>
HWY_INLINE void JoinPlain(const KvLayout& layout, const AttentionParams& params, Page page,
                          AttentionState* states, size_t count, KeyRange keys) {
  WithQueries(count, [&]<size_t kQ>(size_t m)
                         HWY_ATTR { PlainBlock<Cache, kQ>(layout, params, page, states + m, keys); });
}

// A page of halves as floats, which is exact. Panels and rows without padding stay where they were.
HWY_INLINE void WidenPage(const KvLayout& from, const KvLayout& to, Page page, std::byte* wide) {
  const auto copy = [&](size_t from_offset, size_t to_offset, size_t count) HWY_ATTR {
    const auto* half = reinterpret_cast<const uint16_t*>(page.data + from_offset);
    auto* floats = reinterpret_cast<float*>(wide + to_offset);
    for (size_t i = 0; i < count; i += kVF) {
      page.prefetch_next(half + i);
      hn::Store(LoadF16(half + i), DF(), floats + i);
    }
  };
  for (size_t panel = 0; panel < 2; ++panel)
    copy(panel * from.key_panel_bytes(), panel * to.key_panel_bytes(), from.head_dim * kPanelRows);
  if (from.latent) return;
  copy(from.values_offset(), to.values_offset(), kKvPage * from.padded_values());
}

// The values of a latent page, which are its keys: columns of panels of floats become rows.
HWY_INLINE void ValuesOfKeys(const KvLayout& layout, const std::byte* keys, std::byte* wide) {
  const size_t dim = layout.padded_values();
  auto* values = reinterpret_cast<float*>(wide + layout.values_offset());
  for (size_t panel = 0; panel < 2; ++panel) {
    const auto* from = reinterpret_cast<const float*>(keys + panel * layout.key_panel_bytes());
    float* to = values + panel * kPanelRows * dim;
    for (size_t k0 = 0; k0 < dim; k0 += kPanelRows) {
      const size_t end = std::min(k0 + kPanelRows, layout.values());
      for (size_t j = 0; j < kPanelRows; ++j) {
        for (size_t k = k0; k < end; ++k) to[j * dim + k] = from[k * kPanelRows + j];
        for (size_t k = end; k < k0 + kPanelRows; ++k) to[j * dim + k] = 0;  // padding
      }
    }
  }
}

// Queries over a latent page whose keys stand as floats in `wide`.
void JoinLatent(const KvLayout& floats, const AttentionParams& params, AttentionState* states, size_t count,
                KeyRange keys, std::byte* wide) {
  ValuesOfKeys(floats, wide, wide);
  JoinPlain<F32Cache>(floats, params, {wide, 0}, states, count, keys);
}

void JoinPageF32(const KvLayout& layout, const AttentionParams& params, Page page, AttentionState* states,
                 size_t count, KeyRange keys, std::byte* wide) {
  if (layout.latent) {
    std::memcpy(wide, page.data, layout.values_offset());
    return JoinLatent(layout.wide(), params, states, count, keys, wide);
  }
  JoinPlain<F32Cache>(layout, params, page, states, count, keys);
}
void JoinPageF16(const KvLayout& layout, const AttentionParams& params, Page page, AttentionState* states,
                 size_t count, KeyRange keys, std::byte* wide) {
  constexpr size_t kWidenFrom = 16;  // queries that pay for it
  if (count < kWidenFrom && !layout.latent)
    return JoinPlain<F16Cache>(layout, params, page, states, count, keys);
  const KvLayout floats = layout.wide();
  WidenPage(layout, floats, page, wide);
  if (layout.latent) return JoinLatent(floats, params, states, count, keys, wide);
  JoinPlain<F32Cache>(floats, params, {wide, 0}, states, count, keys);
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
