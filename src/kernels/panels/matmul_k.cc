// Q4_K, Q5_K and Q6_K panels: integer sums with integer scales over 256 columns, then one FMA (two with
// minimums).
#include "kernels/panels/pack_table.h"
#include "kernels/tiles/panel_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/panels/matmul_k.cc"
#include "hwy/foreach_target.h"
#include "kernels/tiles/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
void q4_k_panels(const MatmulJob& job) { ref::matmul_panels(DType::kQ4_K, job); }
void q5_k_panels(const MatmulJob& job) { ref::matmul_panels(DType::kQ5_K, job); }
void q6_k_panels(const MatmulJob& job) { ref::matmul_panels(DType::kQ6_K, job); }
#else

// Weights of the chunks 2i and 2i + 1 of a sub-block, for one part of the panel's rows.
struct ChunkPair {
  V8 first, second;
};
struct Q4_K {
  static constexpr size_t kSubBytes = panel::kQ4KSub;
  static constexpr size_t kMaxWeight = 15;
  template <int kPair>
  static HWY_INLINE ChunkPair Load(const uint8_t* sub, size_t part) {
    const V8 both = LoadChunk(sub + kPair * panel::kChunkBytes, part);
    return {ByteBits(both, 15), HighNibbles(both)};
  }
};

struct Q5_K {
  static constexpr size_t kSubBytes = panel::kQ5KSub;
  static constexpr size_t kMaxWeight = 31;
  template <int kPair>
  static HWY_INLINE ChunkPair Load(const uint8_t* sub, size_t part) {
    const V8 both = LoadChunk(sub + kPair * panel::kChunkBytes, part);
    const V8 bits = LoadChunk(sub + panel::kNibbleSub, part);
    return {hn::Or(ByteBits(both, 15), FifthBit(bits, 2 * kPair)),
            hn::Or(HighNibbles(both), FifthBit(bits, 2 * kPair + 1))};
  }
};

struct Q6_K {
  static constexpr size_t kSubBytes = panel::kQ6KSub;
  static constexpr size_t kMaxWeight = 63;
  template <int kPair>
  static HWY_INLINE ChunkPair Load(const uint8_t* sub, size_t part) {
    const V8 both = LoadChunk(sub + kPair * panel::kChunkBytes, part);
    const V8 bits = LoadChunk(sub + panel::kNibbleSub + kPair / 2 * panel::kChunkBytes, part);
    return {hn::Or(ByteBits(both, 15), MoveToBit4<4 * (kPair % 2)>(bits, 0x30)),
            hn::Or(HighNibbles(both), MoveToBit4<4 * (kPair % 2) + 2>(bits, 0x30))};
  }
};

// One pair step for all rows; `flush` ends a run of 16-bit sums.
template <class Format, int kPair, size_t kM>
HWY_INLINE void PairStep(const uint8_t* sub, size_t part, const ActTile<kM>& acts, size_t column, Acc* acc) {
  const ChunkPair w = Format::template Load<kPair>(sub, part);
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
template <class Format, size_t kM>
HWY_INLINE void SubBlock(const uint8_t* sub, size_t part, const ActTile<kM>& acts, size_t column, Scale low,
                         Scale high, VI* sums) {
  constexpr size_t kGroup = Format::kMaxWeight == 63 ? 2 : 4;
  constexpr size_t kRun = run_pairs(Format::kMaxWeight, kGroup);
  Acc acc[kM];
  BF_UNROLL
  for (size_t m = 0; m < kM; ++m) acc[m] = ZeroAcc();
  PairStep<Format, 0, kM>(sub, part, acts, column, acc);
  if constexpr (kRun == 1) FlushAll<kM>(acc, low, sums);
  PairStep<Format, 1, kM>(sub, part, acts, column, acc);
  if constexpr (kRun <= 2) FlushAll<kM>(acc, low, sums);
  PairStep<Format, 2, kM>(sub, part, acts, column, acc);
  if constexpr (kRun == 1) FlushAll<kM>(acc, high, sums);
  PairStep<Format, 3, kM>(sub, part, acts, column, acc);
  FlushAll<kM>(acc, high, sums);
}

// Scale and minimum per 32 columns.
template <class Format>
struct MinTile {
  static constexpr ActKind kAct = ActKind::kQ8x256;

  template <size_t kM, size_t kPasses>
  static HWY_INLINE void Run(const std::byte* panel_data, size_t cols, size_t part_begin,
                             const ActTile<kM>& acts, TileOut out, Ahead ahead) {
    const auto* quants = reinterpret_cast<const uint8_t*>(panel_data);
    const size_t blocks = cols / 256;
    const auto* scales = quants + blocks * 8 * Format::kSubBytes;
    VF acc[kM][kPasses];
    BF_UNROLL
    for (size_t m = 0; m < kM; ++m) BF_UNROLL
    for (size_t p = 0; p < kPasses; ++p) acc[m][p] = hn::Zero(DF());
    for (size_t block = 0; block < blocks; ++block) {
      const uint8_t* scale = scales + block * panel::kKScales;
      BF_UNROLL
      for (size_t p = 0; p < kPasses; ++p) {
        const size_t part = part_begin + p;
        VI sums[kM], mins[kM];
        BF_UNROLL
        for (size_t m = 0; m < kM; ++m) sums[m] = mins[m] = hn::Zero(DI());
        for (size_t s = 0; s < 8; ++s) {
          if (p == 0) ahead.Lines(Format::kSubBytes + panel::kKScales / 8);
          const hn::Rebind<uint8_t, DI> d8;
          const Scale sc = MakeScale(hn::PromoteTo(DI(), hn::LoadU(d8, scale + s * kPanelRows + part * kVF)));
          SubBlock<Format, kM>(quants + (block * 8 + s) * Format::kSubBytes, part, acts, block * 256 + s * 32,
                               sc, sc, sums);
        }
        BF_UNROLL
        for (size_t pair = 0; pair < 4; ++pair) {
          const hn::Rebind<uint8_t, D16> d8;
          const uint8_t* from = scale + panel::kKMinsOffset + (pair * kPanelRows + part * kVF) * 2;
          const V16 pairs = hn::PromoteTo(D16(), hn::LoadU(d8, from));
          BF_UNROLL
          for (size_t m = 0; m < kM; ++m) {
            const int16_t both[2] = {static_cast<int16_t>(acts.Sum32(m, block * 8 + 2 * pair)),
                                     static_cast<int16_t>(acts.Sum32(m, block * 8 + 2 * pair + 1))};
            mins[m] =
                hn::Add(mins[m], PairProducts(pairs, hn::BitCast(D16(), hn::Set(DI(), TwoShorts(both)))));
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
    }
    BF_UNROLL
    for (size_t m = 0; m < kM; ++m) BF_UNROLL
    for (size_t p = 0; p < kPasses; ++p) out.Store(m, part_begin + p, acc[m][p]);
  }
};

// Q6_K: signed scale per 16 columns, weights offset by 32.
struct Q6Tile {
  static constexpr ActKind kAct = ActKind::kQ8x256;

  template <size_t kM, size_t kPasses>
  static HWY_INLINE void Run(const std::byte* panel_data, size_t cols, size_t part_begin,
                             const ActTile<kM>& acts, TileOut out, Ahead ahead) {
    const auto* quants = reinterpret_cast<const uint8_t*>(panel_data);
    const size_t blocks = cols / 256;
    const auto* scales = reinterpret_cast<const int8_t*>(quants + blocks * 8 * Q6_K::kSubBytes);
    VF acc[kM][kPasses];
    BF_UNROLL
    for (size_t m = 0; m < kM; ++m) BF_UNROLL
    for (size_t p = 0; p < kPasses; ++p) acc[m][p] = hn::Zero(DF());
    for (size_t block = 0; block < blocks; ++block) {
      const int8_t* scale = scales + block * panel::kQ6KScales;
      BF_UNROLL
      for (size_t p = 0; p < kPasses; ++p) {
        const size_t part = part_begin + p;
        VI sums[kM], offset[kM];
        BF_UNROLL
        for (size_t m = 0; m < kM; ++m) sums[m] = offset[m] = hn::Zero(DI());
        for (size_t s = 0; s < 8; ++s) {
          if (p == 0) ahead.Lines(Q6_K::kSubBytes + panel::kQ6KScales / 8);
          const hn::Rebind<int8_t, D16> d8;
          const V16 pairs = hn::PromoteTo(D16(), hn::LoadU(d8, scale + (s * kPanelRows + part * kVF) * 2));
          const VI wide = hn::BitCast(DI(), pairs);
          const Scale low = MakeScale(hn::ShiftRight<16>(hn::ShiftLeft<16>(wide)));
          const Scale high = MakeScale(hn::ShiftRight<16>(wide));
          SubBlock<Q6_K, kM>(quants + (block * 8 + s) * Q6_K::kSubBytes, part, acts, block * 256 + s * 32,
                             low, high, sums);
          BF_UNROLL
          for (size_t m = 0; m < kM; ++m) {
            const V16 a = hn::BitCast(D16(), hn::Set(DI(), TwoShorts(acts.sums[m] + (block * 8 + s) * 2)));
            offset[m] = hn::Add(offset[m], PairProducts(pairs, a));
          }
        }
        const VF d = LoadF16(reinterpret_cast<const uint16_t*>(scale + panel::kQ6KDOffset) + part * kVF);
        BF_UNROLL
        for (size_t m = 0; m < kM; ++m) {
          const VI sum = hn::Sub(sums[m], hn::ShiftLeft<5>(offset[m]));
          acc[m][p] = Fma(hn::ConvertTo(DF(), sum), hn::Mul(d, hn::Set(DF(), acts.d[m][block])), acc[m][p]);
        }
      }
    }
    BF_UNROLL
    for (size_t m = 0; m < kM; ++m) BF_UNROLL
    for (size_t p = 0; p < kPasses; ++p) out.Store(m, part_begin + p, acc[m][p]);
  }
};

void q4_k_panels(const MatmulJob& job) { RunPanels<MinTile<Q4_K>>(job); }
void q5_k_panels(const MatmulJob& job) { RunPanels<MinTile<Q5_K>>(job); }
void q6_k_panels(const MatmulJob& job) { RunPanels<Q6Tile>(job); }
#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
HWY_EXPORT(q4_k_panels);
HWY_EXPORT(q5_k_panels);
HWY_EXPORT(q6_k_panels);
void matmul_q4_k_panels(const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(q4_k_panels)(job); }
void matmul_q5_k_panels(const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(q5_k_panels)(job); }
void matmul_q6_k_panels(const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(q6_k_panels)(job); }
}  // namespace butterfly::kernels
#endif  // HWY_ONCE
