// Q8_0 panels: signed bytes, one scale per 32 columns. Pages of the KV cache have the same layout.
#if defined(__x86_64__)
#include "kernels/amx/amx_bytes.h"
#endif
#include "kernels/panels/pack_table.h"
#include "kernels/panels/q32.h"
#include "kernels/quant/q8_0.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/panels/q8_0.cc"
#include "hwy/foreach_target.h"
#include "kernels/panels/q32-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {
namespace {

struct Q8_0 : Q32Layout<BlockQ8_0> {
  static constexpr DType kType = DType::kQ8_0;
  static constexpr int32_t kOffset = 0;
};

void pack_full(const FullPanel& panel) { PackFullQ32<Q8_0>(panel); }

#if HWY_TARGET == HWY_SCALAR
void matmul_panels(const MatmulJob& job) { ref::matmul_panels(Q8_0::kType, job); }
#else
struct Bytes {
  template <size_t kM>
  static HWY_INLINE void Sums(const uint8_t* sub, size_t part, const ActTile<kM>& acts, size_t block,
                              VI* sums) {
    SignedAcc acc[kM];
    BF_UNROLL
    for (size_t m = 0; m < kM; ++m) acc[m] = ZeroSignedAcc();
    BF_UNROLL
    for (size_t c = 0; c < 8; ++c)
      StepSignedAll<kM>(acc, LoadChunk(sub + c * panel::kChunkBytes, part), acts, block * 32 + c * 4);
    FlushSignedAll<kM>(acc, acts, block, sums);
  }
};
void matmul_panels(const MatmulJob& job) { RunPanels<Q32Tile<Q8_0, Bytes>>(job); }
#endif

}  // namespace
}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
using HWY_NAMESPACE::Q8_0;
HWY_EXPORT(pack_full);
HWY_EXPORT(matmul_panels);
void best_pack_full(const FullPanel& panel) { HWY_DYNAMIC_DISPATCH(pack_full)(panel); }
void best_matmul(const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(matmul_panels)(job); }

#if defined(__x86_64__)
// From 8 rows on tiles are faster (Sapphire Rapids, kernels_bench matmul/ and bench --streams).
constexpr TileMatmul kTiles = {8, amx::matmul_packed_bytes};
#else
constexpr TileMatmul kTiles = {};
#endif
}  // namespace

constinit const PackFormat q8_0_panels = q32_format<Q8_0>(best_pack_full, best_matmul, kTiles);

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
