// Panels of types with 32-value blocks: exact integer sums per 32 columns, then one FMA per block and output
// (two with minimums).
#include "kernels/panels/pack_table.h"
#include "kernels/quant/iq4_nl.h"
#include "kernels/tiles/panel_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/panels/matmul_q32.cc"
#include "hwy/foreach_target.h"
#include "kernels/tiles/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
void q4_0_panels(const MatmulJob& job) { ref::matmul_panels(DType::kQ4_0, job); }
void q4_1_panels(const MatmulJob& job) { ref::matmul_panels(DType::kQ4_1, job); }
void q5_0_panels(const MatmulJob& job) { ref::matmul_panels(DType::kQ5_0, job); }
void q5_1_panels(const MatmulJob& job) { ref::matmul_panels(DType::kQ5_1, job); }
void q8_0_panels(const MatmulJob& job) { ref::matmul_panels(DType::kQ8_0, job); }
void iq4_nl_panels(const MatmulJob& job) { ref::matmul_panels(DType::kIQ4_NL, job); }
#else

// Nibbles as unsigned weights, with an offset that is taken off by the sum of activations; kBits 5 adds the
// fifth.
template <size_t kBits, int32_t kOffset, bool kMinimum>
struct Nibbles {
  static constexpr size_t kSubBytes = kBits == 5 ? panel::kFiveBitSub : panel::kNibbleSub;
  static constexpr bool kMin = kMinimum;

  // sum of (q - kOffset) * a over 32 columns, for kM rows of activations.
  template <size_t kM>
  static HWY_INLINE void Sums(const uint8_t* sub, size_t part, const ActTile<kM>& acts, size_t block,
                              VI* sums) {
    // Pairs of chunks whose 16-bit sums cannot overflow (targets with maddubs).
    constexpr size_t kRun = run_pairs((size_t{1} << kBits) - 1, 4);
    Acc acc[kM];
    BF_UNROLL
    for (size_t m = 0; m < kM; ++m) {
      acc[m] = ZeroAcc();
      sums[m] = kOffset == 0 ? hn::Zero(DI()) : hn::Set(DI(), -kOffset * acts.Sum32(m, block));
    }
    V8 bits = hn::Zero(D8());
    if constexpr (kBits == 5) bits = LoadChunk(sub + panel::kNibbleSub, part);
    BF_UNROLL
    for (size_t i = 0; i < 4; ++i) {
      const V8 both = LoadChunk(sub + i * panel::kChunkBytes, part);
      V8 low = ByteBits(both, 15), high = HighNibbles(both);
      if constexpr (kBits == 5) {
        low = hn::Or(low, FifthBit(bits, 2 * i));
        high = hn::Or(high, FifthBit(bits, 2 * i + 1));
      }
      BF_UNROLL
      for (size_t m = 0; m < kM; ++m) {
        const int8_t* a = acts.q[m] + block * 32 + i * 8;
        acc[m] = Step(Step(acc[m], low, a), high, a + 4);
        if ((i + 1) % kRun == 0) {
          sums[m] = Flush(acc[m], sums[m]);
          acc[m] = ZeroAcc();
        }
      }
    }
  }
};

// Signed bytes.
template <size_t kM>
HWY_INLINE void StepAll(SignedAcc* acc, V8 weights, const ActTile<kM>& acts, size_t column) {
  const SignedWeights w = MakeSigned(weights);
  BF_UNROLL
  for (size_t m = 0; m < kM; ++m) acc[m] = StepSigned(acc[m], w, acts.q[m] + column);
}
template <size_t kM>
HWY_INLINE void FlushAll(const SignedAcc* acc, const ActTile<kM>& acts, size_t block, VI* sums) {
  BF_UNROLL
  for (size_t m = 0; m < kM; ++m) {
    sums[m] = FlushSigned(acc[m]);
    if (kSignedOffset != 0) sums[m] = hn::Sub(sums[m], hn::Set(DI(), kSignedOffset * acts.Sum32(m, block)));
  }
}

struct Bytes {
  static constexpr size_t kSubBytes = panel::kByteSub;
  static constexpr bool kMin = false;
  template <size_t kM>
  static HWY_INLINE void Sums(const uint8_t* sub, size_t part, const ActTile<kM>& acts, size_t block,
                              VI* sums) {
    SignedAcc acc[kM];
    BF_UNROLL
    for (size_t m = 0; m < kM; ++m) acc[m] = ZeroSignedAcc();
    BF_UNROLL
    for (size_t c = 0; c < 8; ++c)
      StepAll<kM>(acc, LoadChunk(sub + c * panel::kChunkBytes, part), acts, block * 32 + c * 4);
    FlushAll<kM>(acc, acts, block, sums);
  }
};

// Nibbles that point into IQ4_NL's table of signed bytes.
struct Points {
  static constexpr size_t kSubBytes = panel::kNibbleSub;
  static constexpr bool kMin = false;
  template <size_t kM>
  static HWY_INLINE void Sums(const uint8_t* sub, size_t part, const ActTile<kM>& acts, size_t block,
                              VI* sums) {
    const V8 points = hn::LoadDup128(D8(), reinterpret_cast<const uint8_t*>(kIq4Points.data()));
    SignedAcc acc[kM];
    BF_UNROLL
    for (size_t m = 0; m < kM; ++m) acc[m] = ZeroSignedAcc();
    BF_UNROLL
    for (size_t i = 0; i < 4; ++i) {
      const V8 both = LoadChunk(sub + i * panel::kChunkBytes, part);
      StepAll<kM>(acc, hn::TableLookupBytes(points, ByteBits(both, 15)), acts, block * 32 + i * 8);
      StepAll<kM>(acc, hn::TableLookupBytes(points, HighNibbles(both)), acts, block * 32 + i * 8 + 4);
    }
    FlushAll<kM>(acc, acts, block, sums);
  }
};

// kM activation rows times parts [part_begin, part_begin + kPasses) of one panel.
template <class Format>
struct Q32Tile {
  static constexpr ActKind kAct = ActKind::kQ8x32;

  template <size_t kM, size_t kPasses>
  static HWY_INLINE void Run(const std::byte* panel_data, size_t cols, size_t part_begin,
                             const ActTile<kM>& acts, TileOut out, Ahead ahead) {
    const auto* quants = reinterpret_cast<const uint8_t*>(panel_data);
    const auto* scales =
        reinterpret_cast<const uint16_t*>(panel_data + panel::q32_scales(cols, Format::kSubBytes));
    constexpr size_t kScaleRows = Format::kMin ? 2 : 1;
    VF acc[kM][kPasses];
    BF_UNROLL
    for (size_t m = 0; m < kM; ++m) BF_UNROLL
    for (size_t p = 0; p < kPasses; ++p) acc[m][p] = hn::Zero(DF());
    for (size_t block = 0; block < cols / 32; ++block) {
      ahead.Lines(Format::kSubBytes + kScaleRows * panel::kScaleRow);
      BF_UNROLL
      for (size_t p = 0; p < kPasses; ++p) {
        const size_t part = part_begin + p;
        VI sums[kM];
        Format::template Sums<kM>(quants + block * Format::kSubBytes, part, acts, block, sums);
        const uint16_t* halves = scales + block * kScaleRows * kPanelRows + part * kVF;
        const VF d = LoadF16(halves);
        BF_UNROLL
        for (size_t m = 0; m < kM; ++m) {
          const VF da = hn::Set(DF(), acts.d[m][block]);
          acc[m][p] = Fma(hn::ConvertTo(DF(), sums[m]), hn::Mul(d, da), acc[m][p]);
          if constexpr (Format::kMin) {
            const VF total = hn::Set(DF(), static_cast<float>(acts.Sum32(m, block)));
            acc[m][p] = Fma(total, hn::Mul(LoadF16(halves + kPanelRows), da), acc[m][p]);
          }
        }
      }
    }
    BF_UNROLL
    for (size_t m = 0; m < kM; ++m) BF_UNROLL
    for (size_t p = 0; p < kPasses; ++p) out.Store(m, part_begin + p, acc[m][p]);
  }
};

void q4_0_panels(const MatmulJob& job) { RunPanels<Q32Tile<Nibbles<4, 8, false>>>(job); }
void q4_1_panels(const MatmulJob& job) { RunPanels<Q32Tile<Nibbles<4, 0, true>>>(job); }
void q5_0_panels(const MatmulJob& job) { RunPanels<Q32Tile<Nibbles<5, 16, false>>>(job); }
void q5_1_panels(const MatmulJob& job) { RunPanels<Q32Tile<Nibbles<5, 0, true>>>(job); }
void q8_0_panels(const MatmulJob& job) { RunPanels<Q32Tile<Bytes>>(job); }
void iq4_nl_panels(const MatmulJob& job) { RunPanels<Q32Tile<Points>>(job); }
#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
HWY_EXPORT(q4_0_panels);
HWY_EXPORT(q4_1_panels);
HWY_EXPORT(q5_0_panels);
HWY_EXPORT(q5_1_panels);
HWY_EXPORT(q8_0_panels);
HWY_EXPORT(iq4_nl_panels);
void matmul_q4_0_panels(const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(q4_0_panels)(job); }
void matmul_q4_1_panels(const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(q4_1_panels)(job); }
void matmul_q5_0_panels(const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(q5_0_panels)(job); }
void matmul_q5_1_panels(const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(q5_1_panels)(job); }
void matmul_q8_0_panels(const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(q8_0_panels)(job); }
void matmul_iq4_nl_panels(const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(iq4_nl_panels)(job); }
}  // namespace butterfly::kernels
#endif  // HWY_ONCE
