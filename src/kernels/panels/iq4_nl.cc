// IQ4_NL panels: nibbles that point into a table of signed bytes, one scale per 32 columns.
#include "kernels/quant/iq4_nl.h"
#include "kernels/panels/pack_table.h"
#include "kernels/panels/q32.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/panels/iq4_nl.cc"
#include "hwy/foreach_target.h"
#include "kernels/panels/q32-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {
namespace {

struct IQ4_NL : Q32Layout<BlockIQ4_NL> {
  static constexpr DType kType = DType::kIQ4_NL;
  static int weight(uint8_t quant) { return kIq4Points[quant]; }
};

void pack_full(const FullPanel& panel) { PackFullQ32<IQ4_NL>(panel); }

#if HWY_TARGET == HWY_SCALAR
void matmul_panels(const MatmulJob& job) { ref::matmul_panels(IQ4_NL::kType, job); }
#else
struct Points {
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
      StepSignedAll<kM>(acc, hn::TableLookupBytes(points, ByteBits(both, 15)), acts, block * 32 + i * 8);
      StepSignedAll<kM>(acc, hn::TableLookupBytes(points, HighNibbles(both)), acts, block * 32 + i * 8 + 4);
    }
    FlushSignedAll<kM>(acc, acts, block, sums);
  }
};
void matmul_panels(const MatmulJob& job) { RunPanels<Q32Tile<IQ4_NL, Points>>(job); }
#endif

}  // namespace
}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
using HWY_NAMESPACE::IQ4_NL;
HWY_EXPORT(pack_full);
HWY_EXPORT(matmul_panels);
void best_pack_full(const FullPanel& panel) { HWY_DYNAMIC_DISPATCH(pack_full)(panel); }
void best_matmul(const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(matmul_panels)(job); }
}  // namespace

constinit const PackFormat iq4_nl_panels = q32_format<IQ4_NL>(best_pack_full, best_matmul);

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
