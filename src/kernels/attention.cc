#include "kernels/attention.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/checked.h"
#include "kernels/activation_rows.h"
#include "kernels/attention_block.h"
#include "kernels/panel_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention.cc"
#include "hwy/foreach_target.h"
#include "kernels/dot-inl.h"
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
void attend_all(const KvLayout& layout, const AttentionParams& params, const KvPages& pages,
                const AttentionQuery* queries, size_t count, std::byte* scratch) {
  ref::attend(layout, params, pages, queries, count, scratch);
}
#else

inline constexpr size_t kBlockVectors = kKvPage / kVF;  // vectors of 32 scores

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
HWY_INLINE void PlainScores(const KvLayout& layout, const std::byte* page, const AttentionState* states,
                            size_t dim, float (*scores)[kKvPage]) {
  using Value = typename Cache::Value;
  const size_t panel_values = layout.key_panel_bytes() / sizeof(Value);
  const auto* keys = reinterpret_cast<const Value*>(page);
  VF acc[kQ][kBlockVectors];
  BF_UNROLL
  for (size_t m = 0; m < kQ; ++m) BF_UNROLL
  for (size_t v = 0; v < kBlockVectors; ++v) acc[m][v] = hn::Zero(DF());
  for (size_t k = 0; k < dim; ++k) {
    VF key[kBlockVectors];
    BF_UNROLL
    for (size_t v = 0; v < kBlockVectors; ++v) {
      const size_t lane = v * kVF;
      key[v] = Cache::Load(keys + lane / kPanelRows * panel_values + k * kPanelRows + lane % kPanelRows);
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

// The same for a Q8_0 cache, as a Q8_0 matmul: exact integer sums per 32 dimensions, then one FMA.
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

// Turns the scores of one query into weights; returns the factor for what was summed before.
HWY_INLINE float Weigh(const AttentionParams& params, AttentionState& state, KeyRange keys, float* scores) {
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

// o = o * c, then o = fma(p[j], v[j], o) for the visible j, for kQ queries with the same visible keys.
template <class Cache, size_t kQ>
HWY_INLINE void PlainValues(const KvLayout& layout, const std::byte* page, const AttentionState* states,
                            KeyRange keys, float (*weights)[kKvPage], const float* factors) {
  using Value = typename Cache::Value;
  const size_t dim = layout.padded_dim();
  const auto* values = reinterpret_cast<const Value*>(page + layout.values_offset());
  constexpr size_t kWide = kQ == 1 && kVF < 16 ? 4 : kQ <= 2 ? 2 : 1;  // independent chains
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
        const VF v = Cache::Load(values + j * dim + k + w * kVF);
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

// kQ queries that see the same keys of this page.
template <class Cache, size_t kQ>
HWY_INLINE void PlainBlock(const KvLayout& layout, const AttentionParams& params, const std::byte* page,
                           AttentionState* states, KeyRange keys) {
  alignas(64) float scores[kQ][kKvPage];
  float factors[kQ];
  PlainScores<Cache, kQ>(layout, page, states, layout.head_dim, scores);
  BF_UNROLL
  for (size_t m = 0; m < kQ; ++m) factors[m] = Weigh(params, states[m], keys, scores[m]);
  PlainValues<Cache, kQ>(layout, page, states, keys, scores, factors);
}

template <class Cache>
HWY_INLINE void PlainBlocks(const KvLayout& layout, const AttentionParams& params, const std::byte* page,
                            AttentionState* states, size_t count, KeyRange keys) {
  constexpr size_t kMany = HWY_TARGET == HWY_AVX3_DL ? 8 : 2;
  size_t m = 0;
  for (; m + kMany <= count; m += kMany) PlainBlock<Cache, kMany>(layout, params, page, states + m, keys);
  if constexpr (kMany > 4)
    for (; m + 4 <= count; m += 4) PlainBlock<Cache, 4>(layout, params, page, states + m, keys);
  if constexpr (kMany > 2)
    for (; m + 2 <= count; m += 2) PlainBlock<Cache, 2>(layout, params, page, states + m, keys);
  for (; m < count; ++m) PlainBlock<Cache, 1>(layout, params, page, states + m, keys);
}

void attend_all(const KvLayout& layout, const AttentionParams& params, const KvPages& pages,
                const AttentionQuery* queries, size_t count, std::byte* scratch) {
  AttentionState states[kQueriesMax];
  begin_attention(layout, params, queries, count, scratch, states);
  const BlockRange blocks = visible_blocks(params, queries, count);
  for (size_t block = blocks.begin; block < blocks.end; ++block) {
    const std::byte* page = pages.page(block);
    // Neighbours that see the same keys go together.
    for (size_t m = 0; m < count;) {
      const KeyRange keys = visible_keys(params, queries[m].position, block);
      size_t end = m + 1;
      while (end < count && visible_keys(params, queries[end].position, block) == keys) ++end;
      if (!keys.empty()) {
        switch (layout.dtype) {
          case DType::kF32:
            PlainBlocks<F32Cache>(layout, params, page, states + m, end - m, keys);
            break;
          case DType::kF16:
            PlainBlocks<F16Cache>(layout, params, page, states + m, end - m, keys);
            break;
          default:
            for (size_t i = m; i < end; ++i) {
              alignas(64) float scores[kKvPage];
              Q8Scores(layout, page, states[i], layout.head_dim, scores);
              const float factor = Weigh(params, states[i], keys, scores);
              Q8Values(layout, page, states[i], keys, scores, factor);
            }
        }
      }
      m = end;
    }
  }
  finish_attention(layout, queries, count, states);
}
#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
HWY_EXPORT(attend_all);

void attend(const KvLayout& layout, const AttentionParams& params, const KvPages& pages,
            const AttentionQuery* queries, size_t count, std::byte* scratch) {
  BF_DCHECK(count <= kQueriesMax && kv_why_not(layout) == nullptr) << count;
  HWY_DYNAMIC_DISPATCH(attend_all)(layout, params, pages, queries, count, scratch);
}
}  // namespace butterfly::kernels
#endif  // HWY_ONCE
