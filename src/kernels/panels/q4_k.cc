// Q4_K panels: nibbles, scales and minimums of 32 columns as bytes, their own scales per 256.
#if defined(__x86_64__)
#include "kernels/amx/amx_k.h"
#include "kernels/amx/amx_k_few.h"
#endif
#include "kernels/panels/k_types.h"
#include "kernels/panels/pack_table.h"
#include "kernels/quant/q4_k.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/panels/q4_k.cc"
#include "hwy/foreach_target.h"
#include "kernels/panels/k_types-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {
namespace {

using Q4_K = KMinLayout<BlockQ4_K>;

void pack_full(const FullPanel& panel) { PackFullKMin<Q4_K>(panel); }

#if HWY_TARGET == HWY_SCALAR
void matmul_panels(const MatmulJob& job) { ref::matmul_panels(DType::kQ4_K, job); }
#else
struct Q4_KQuants {
  static constexpr size_t kMaxWeight = 15;
  template <int kPair>
  static HWY_INLINE ChunkPair Load(const uint8_t* sub, size_t part) {
    const V8 both = LoadChunk(sub + kPair * panel::kChunkBytes, part);
    return {ByteBits(both, 15), HighNibbles(both)};
  }
};
void matmul_panels(const MatmulJob& job) { RunPanels<KTile<KMinProduct<Q4_K, Q4_KQuants>>>(job); }
#endif

}  // namespace
}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
using HWY_NAMESPACE::Q4_K;
HWY_EXPORT(pack_full);
HWY_EXPORT(matmul_panels);
void best_pack_full(const FullPanel& panel) { HWY_DYNAMIC_DISPATCH(pack_full)(panel); }
void best_matmul(const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(matmul_panels)(job); }

#if defined(__x86_64__)
struct Unpack : amx::KMinScales<Q4_K::kSubBytes> {
  BF_AMX_INLINE static __m512i chunk(const uint8_t* sub, size_t index) { return amx::nibbles(sub, index); }
};
void matmul_tiles(const MatmulJob& job) {
  if (job.m <= amx::kTileRows) return amx::matmul_k_few(job);
  amx::matmul_k(job, amx::k_min_type<Unpack>());
}
// From 6 rows on unpacking is paid for (Sapphire Rapids, kernels_bench matmul/ and bench --streams).
constexpr TileMatmul kTiles = {6, matmul_tiles};
#else
constexpr TileMatmul kTiles = {};
#endif
}  // namespace

constinit const PackFormat q4_k_panels = k_format<Q4_K>(DType::kQ4_K, best_pack_full, best_matmul, kTiles);

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
