// Fast packing and products of types with 256-value blocks: integer sums with integer scales over 256
// columns, then one FMA (two with minimums).
#if defined(BUTTERFLY_KERNELS_K_TYPES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BUTTERFLY_KERNELS_K_TYPES_INL_H_
#undef BUTTERFLY_KERNELS_K_TYPES_INL_H_
#else
#define BUTTERFLY_KERNELS_K_TYPES_INL_H_
#endif

#include "kernels/panels/k_types.h"
#include "kernels/panels/pack_words-inl.h"
#include "kernels/tiles/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

template <class Type>
void PackFullKMin(const FullPanel& p) {
  Type::pack(p.rows, p.row_bytes, kPanelRows, p.cols, p.to);
}

#else

// See PackFormat::pack_full; for a Type of KMinLayout.
template <class Type>
HWY_INLINE void PackFullKMin(const FullPanel& p) {
  using Block = typename Type::Block;
  constexpr size_t kSub = Type::kSubBytes;
  static_assert(offsetof(Block, d) == 0 && offsetof(Block, dmin) == 2 && offsetof(Block, scales) == 4);
  auto* quants = reinterpret_cast<uint8_t*>(p.to);
  uint8_t* scales = quants + p.cols / 32 * kSub;
  EachBlock(p, sizeof(Block), [&](size_t row, size_t b, const uint8_t* at) HWY_ATTR {
    uint8_t* subs = quants + b * 8 * kSub + row * 4;
    for (size_t pair = 0; pair < 4; ++pair) {
      const NibblePlanes planes(at + offsetof(Block, qs) + pair * 32, p.row_bytes);
      planes.StoreLow(subs + 2 * pair * kSub);
      planes.StoreHigh(subs + (2 * pair + 1) * kSub);
    }
    if constexpr (Type::kFifth) {
      Words low(at + offsetof(Block, qh), p.row_bytes), high(at + offsetof(Block, qh) + 16, p.row_bytes);
      for (size_t s = 0; s < 8; ++s) {
        VU fifth = hn::Zero(DU());
        BF_UNROLL
        for (size_t c = 0; c < 8; ++c) {  // chunk 7 first, each moves those before it up
          VU& word = c < 4 ? high.v[3 - c] : low.v[7 - c];
          fifth = hn::Or(hn::Add(fifth, fifth), Bits(word, 0x01010101u));
          word = hn::ShiftRight<1>(word);
        }
        StoreWords(fifth, subs + s * kSub + panel::kNibbleSub);
      }
    }
    // d and dmin, then twelve bytes of six-bit scales and minimums (quant/six_bit_scales.h).
    const Words head(at, p.row_bytes);
    const VU upper_scales = Bits(hn::ShiftRight<2>(head.v[1]), 0x30303030u);
    const VU upper_mins = Bits(hn::ShiftRight<2>(head.v[2]), 0x30303030u);
    uint8_t* scale = scales + b * panel::kKScales + row;
    StoreFourRows(Bits(head.v[1], 0x3f3f3f3fu), scale);
    StoreFourRows(hn::Or(Bits(head.v[3], 0x0f0f0f0fu), upper_scales), scale + 4 * kPanelRows);
    uint8_t* mins = scale + panel::kKMinsOffset + row;
    StoreTwoRows(Bits(head.v[2], 0x3f3f3f3fu), mins);
    StoreTwoRows(hn::Or(Bits(hn::ShiftRight<4>(head.v[3]), 0x0f0f0f0fu), upper_mins), mins + 4 * kPanelRows);
    StoreTwoRows(head.v[0], scale + panel::kKDOffset + row);
  });
}

// Weights of the chunks 2i and 2i + 1 of a sub-block, for one part of the panel's rows.
struct ChunkPair {
  V8 first, second;
};
// One pair step for all rows; `flush` ends a run of 16-bit sums.
template <class Type, int kPair, size_t kM>
HWY_INLINE void PairStep(const uint8_t* sub, size_t part, const ActTile<kM>& acts, size_t column, Acc* acc) {
  const ChunkPair w = Type::template Load<kPair>(sub, part);
  BF_UNROLL
  for (size_t m = 0; m < kM; ++m) {
    const int8_t* a = acts.q[m] + column + kPair * 8;
    acc[m] = Step(Step(acc[m], w.first, a), w.second, a + 4);
  }
}
template <size_t kM>
HWY_INLINE void FlushAll(Acc* acc, Scale scale, VI* sums) {
  BF_UNROLL
  for (size_t m = 0; m < kM; ++m) {
    sums[m] = FlushScaled(acc[m], scale, sums[m]);
    acc[m] = ZeroAcc();
  }
}

// 32 columns with one scale (low = high) or one per 16 columns.
template <class Type, size_t kM>
HWY_INLINE void SubBlock(const uint8_t* sub, size_t part, const ActTile<kM>& acts, size_t column, Scale low,
                         Scale high, VI* sums) {
  constexpr size_t kRun = run_pairs(Type::kMaxWeight, Type::kGroupPairs);
  Acc acc[kM];
  BF_UNROLL
  for (size_t m = 0; m < kM; ++m) acc[m] = ZeroAcc();
  PairStep<Type, 0, kM>(sub, part, acts, column, acc);
  if constexpr (kRun == 1) FlushAll<kM>(acc, low, sums);
  PairStep<Type, 1, kM>(sub, part, acts, column, acc);
  if constexpr (kRun <= 2) FlushAll<kM>(acc, low, sums);
  PairStep<Type, 2, kM>(sub, part, acts, column, acc);
  if constexpr (kRun == 1) FlushAll<kM>(acc, high, sums);
  PairStep<Type, 3, kM>(sub, part, acts, column, acc);
  FlushAll<kM>(acc, high, sums);
}

// A tile for RunPanels(). A Type gives
//   kSubBytes, kScaleBytes    what 32 columns of quants and 256 columns of scales take
//   Load<kPair>()             weights of a pair of chunks, at most kMaxWeight; kGroupPairs pairs share a
//   scale AddSub()                  adds 32 columns to `sums`, and what its offsets or minimums need to
//   `extra` Finish()                  both, with the scales of the block, join the accumulators
template <class Type>
struct KTile {
  static constexpr ActKind kAct = ActKind::kQ8x256;
  static constexpr size_t kBlock = 256;

  struct Panel {
    const uint8_t* quants;
    const uint8_t* scales;
    HWY_INLINE Panel(const std::byte* data, size_t cols)
        : quants(reinterpret_cast<const uint8_t*>(data)), scales(quants + cols / 32 * Type::kSubBytes) {}
  };

  // See RunShards().
  template <size_t kM, size_t kPasses, class Cuts>
  static HWY_INLINE void Blocks(const Panel& panel, size_t blocks, size_t part_begin, const ActTile<kM>& acts,
                                PanelPrefetch& prefetch, VF (&acc)[kM][kPasses], Cuts& cuts) {
    for (size_t block = 0; block < blocks; ++block) {
      const uint8_t* scale = panel.scales + block * Type::kScaleBytes;
      BF_UNROLL
      for (size_t p = 0; p < kPasses; ++p) {
        const size_t part = part_begin + p;
        VI sums[kM], extra[kM];
        BF_UNROLL
        for (size_t m = 0; m < kM; ++m) sums[m] = extra[m] = hn::Zero(DI());
        for (size_t s = 0; s < 8; ++s) {
          if (p == 0) prefetch.Lines(Type::kSubBytes + Type::kScaleBytes / 8);
          Type::template AddSub<kM>(panel.quants + (block * 8 + s) * Type::kSubBytes, scale, part, acts,
                                    block, s, sums, extra);
        }
        Type::template Finish<kM, kPasses>(scale, part, acts, block, sums, extra, acc, p);
      }
      cuts.Behind(acc);
    }
  }
};

// Products of Q4_K and Q5_K: scale and minimum per 32 columns. Quants gives Load and kMaxWeight.
template <class Layout, class Quants>
struct KMinProduct : Quants {
  static constexpr size_t kSubBytes = Layout::kSubBytes, kScaleBytes = Layout::kScaleBytes;
  static constexpr size_t kGroupPairs = 4;

  template <size_t kM>
  static HWY_INLINE void AddSub(const uint8_t* sub, const uint8_t* scale, size_t part,
                                const ActTile<kM>& acts, size_t block, size_t s, VI* sums, VI* /*mins*/) {
    const hn::Rebind<uint8_t, DI> d8;
    const Scale sc = MakeScale(hn::PromoteTo(DI(), hn::LoadU(d8, scale + s * kPanelRows + part * kVF)));
    SubBlock<KMinProduct, kM>(sub, part, acts, block * 256 + s * 32, sc, sc, sums);
  }

  template <size_t kM, size_t kPasses>
  static HWY_INLINE void Finish(const uint8_t* scale, size_t part, const ActTile<kM>& acts, size_t block,
                                const VI* sums, VI* mins, VF (&acc)[kM][kPasses], size_t p) {
    BF_UNROLL
    for (size_t pair = 0; pair < 4; ++pair) {
      const hn::Rebind<uint8_t, D16> d8;
      const uint8_t* from = scale + panel::kKMinsOffset + (pair * kPanelRows + part * kVF) * 2;
      const V16 pairs = hn::PromoteTo(D16(), hn::LoadU(d8, from));
      BF_UNROLL
      for (size_t m = 0; m < kM; ++m) {
        const int16_t both[2] = {static_cast<int16_t>(acts.Sum32(m, block * 8 + 2 * pair)),
                                 static_cast<int16_t>(acts.Sum32(m, block * 8 + 2 * pair + 1))};
        mins[m] = hn::Add(mins[m], PairProducts(pairs, hn::BitCast(D16(), hn::Set(DI(), TwoShorts(both)))));
      }
    }
    const auto* halves = reinterpret_cast<const uint16_t*>(scale + panel::kKDOffset) + part * kVF;
    const VF d = LoadF16(halves);
    const VF dmin = LoadF16(halves + kPanelRows);
    BF_UNROLL
    for (size_t m = 0; m < kM; ++m) {
      const VF da = hn::Set(DF(), acts.d[m][block]);
      acc[m][p] = Fma(hn::ConvertTo(DF(), sums[m]), hn::Mul(d, da), acc[m][p]);
      acc[m][p] = NegFma(hn::ConvertTo(DF(), mins[m]), hn::Mul(dmin, da), acc[m][p]);
    }
  }
};

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
