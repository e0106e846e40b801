// Q4_0 and Q8_0 panels: exact integer sums per 32 columns, then one FMA per block and output.
#include "kernels/pack_table.h"
#include "kernels/panel_layout.h"
#include "kernels/ref/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul_q32.cc"
#include "hwy/foreach_target.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
void q4_0_panels(const MatmulJob& job) { ref::matmul_panels(DType::kQ4_0, job); }
void q8_0_panels(const MatmulJob& job) { ref::matmul_panels(DType::kQ8_0, job); }
#else

struct Q4_0 {
  static constexpr size_t kSubBytes = panel::kNibbleSub;
  static size_t Scales(size_t cols) { return panel::q4_0_scales(cols); }
  // sum of (q - 8) * a over 32 columns, for kM rows of activations.
  template <size_t kM>
  static HWY_INLINE void Sums(const uint8_t* sub, size_t part, const ActTile<kM>& acts, size_t block,
                              VI* sums) {
    Acc acc[kM];
    BF_UNROLL
    for (size_t m = 0; m < kM; ++m) acc[m] = ZeroAcc();
    BF_UNROLL
    for (size_t i = 0; i < 4; ++i) {
      const V8 both = hn::LoadU(D8(), sub + i * panel::kChunkBytes + part * (kVF * 4));
      const V8 low = hn::And(both, hn::Set(D8(), uint8_t{15}));
      const V8 high = HighNibbles(both);
      BF_UNROLL
      for (size_t m = 0; m < kM; ++m) {
        const int8_t* a = acts.q[m] + block * 32 + i * 8;
        acc[m] = Step(Step(acc[m], low, a), high, a + 4);
      }
    }
    BF_UNROLL
    for (size_t m = 0; m < kM; ++m) sums[m] = Flush(acc[m], hn::Set(DI(), -8 * acts.Sum32(m, block)));
  }
};

struct Q8_0 {
  static constexpr size_t kSubBytes = panel::kByteSub;
  static size_t Scales(size_t cols) { return panel::q8_0_scales(cols); }
  template <size_t kM>
  static HWY_INLINE void Sums(const uint8_t* sub, size_t part, const ActTile<kM>& acts, size_t block,
                              VI* sums) {
    SignedAcc acc[kM];
    BF_UNROLL
    for (size_t m = 0; m < kM; ++m) acc[m] = ZeroSignedAcc();
    BF_UNROLL
    for (size_t c = 0; c < 8; ++c) {
      const SignedWeights w = MakeSigned(hn::LoadU(D8(), sub + c * panel::kChunkBytes + part * (kVF * 4)));
      BF_UNROLL
      for (size_t m = 0; m < kM; ++m) acc[m] = StepSigned(acc[m], w, acts.q[m] + block * 32 + c * 4);
    }
    BF_UNROLL
    for (size_t m = 0; m < kM; ++m) {
      sums[m] = FlushSigned(acc[m]);
      if (kSignedOffset != 0) sums[m] = hn::Sub(sums[m], hn::Set(DI(), kSignedOffset * acts.Sum32(m, block)));
    }
  }
};

// kM activation rows times parts [part_begin, part_begin + kPasses) of one panel.
template <class Format>
struct Q32Tile {
  static constexpr ActKind kAct = ActKind::kQ8x32;

  template <size_t kM, size_t kPasses>
  static HWY_INLINE void Run(const std::byte* panel_data, size_t cols, size_t part_begin,
                             const ActTile<kM>& acts, TileOut out) {
    const auto* quants = reinterpret_cast<const uint8_t*>(panel_data);
    const auto* scales = reinterpret_cast<const uint16_t*>(panel_data + Format::Scales(cols));
    VF acc[kM][kPasses];
    BF_UNROLL
    for (size_t m = 0; m < kM; ++m) BF_UNROLL
    for (size_t p = 0; p < kPasses; ++p) acc[m][p] = hn::Zero(DF());
    for (size_t block = 0; block < cols / 32; ++block) {
      BF_UNROLL
      for (size_t p = 0; p < kPasses; ++p) {
        const size_t part = part_begin + p;
        VI sums[kM];
        Format::template Sums<kM>(quants + block * Format::kSubBytes, part, acts, block, sums);
        const VF d = LoadF16(scales + block * kPanelRows + part * kVF);
        BF_UNROLL
        for (size_t m = 0; m < kM; ++m)
          acc[m][p] =
              Fma(hn::ConvertTo(DF(), sums[m]), hn::Mul(d, hn::Set(DF(), acts.d[m][block])), acc[m][p]);
      }
    }
    BF_UNROLL
    for (size_t m = 0; m < kM; ++m) BF_UNROLL
    for (size_t p = 0; p < kPasses; ++p) out.Store(m, part_begin + p, acc[m][p]);
  }
};

void q4_0_panels(const MatmulJob& job) { RunPanels<Q32Tile<Q4_0>>(job); }
void q8_0_panels(const MatmulJob& job) { RunPanels<Q32Tile<Q8_0>>(job); }
#endif

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
HWY_EXPORT(q4_0_panels);
HWY_EXPORT(q8_0_panels);
void matmul_q4_0_panels(const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(q4_0_panels)(job); }
void matmul_q8_0_panels(const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(q8_0_panels)(job); }
}  // namespace butterfly::kernels
#endif  // HWY_ONCE
