// Q5_K panels: five bits, scales and minimums of 32 columns as bytes, their own scales per 256.
#if defined(__x86_64__)
#include "kernels/amx/amx_k.h"
#endif
#include "kernels/panels/k_types.h"
#include "kernels/panels/pack_table.h"
#include "kernels/quant/q5_k.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/panels/q5_k.cc"
#include "hwy/foreach_target.h"
#include "kernels/panels/k_types-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {
namespace {

using Q5_K = KMinLayout<BlockQ5_K>;

void pack_full(const FullPanel& panel) { PackFullKMin<Q5_K>(panel); }

#if HWY_TARGET == HWY_SCALAR
void matmul_panels(const MatmulJob& job) { ref::matmul_panels(DType::kQ5_K, job); }
#else
struct Q5_KQuants {
  static constexpr size_t kMaxWeight = 31;
  template <int kPair>
  static HWY_INLINE ChunkPair Load(const uint8_t* sub, size_t part) {
    const V8 both = LoadChunk(sub + kPair * panel::kChunkBytes, part);
    const V8 bits = LoadChunk(sub + panel::kNibbleSub, part);
    return {hn::Or(ByteBits(both, 15), FifthBit(bits, 2 * kPair)),
            hn::Or(HighNibbles(both), FifthBit(bits, 2 * kPair + 1))};
  }
};
void matmul_panels(const MatmulJob& job) { RunPanels<KTile<KMinProduct<Q5_K, Q5_KQuants>>>(job); }
#endif

}  // namespace
}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
using HWY_NAMESPACE::Q5_K;
HWY_EXPORT(pack_full);
HWY_EXPORT(matmul_panels);
void best_pack_full(const FullPanel& panel) { HWY_DYNAMIC_DISPATCH(pack_full)(panel); }
void best_matmul(const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(matmul_panels)(job); }

#if defined(__x86_64__)
struct Unpack : amx::KMinScales<Q5_K::kSubBytes> {
  BF_AMX_INLINE static __m512i chunk(const uint8_t* sub, size_t index) { return amx::five_bits(sub, index); }
};
void matmul_tiles(const MatmulJob& job) { amx::matmul_k(job, amx::k_min_type<Unpack>()); }
// Unpacking is paid for by more rows than one tile has (Sapphire Rapids, kernels_bench matmul/ and bench
// --streams).
constexpr TileMatmul kTiles = {amx::kTileRows + 1, matmul_tiles};
#else
constexpr TileMatmul kTiles = {};
#endif
}  // namespace

constinit const PackFormat q5_k_panels = k_format<Q5_K>(DType::kQ5_K, best_pack_full, best_matmul, kTiles);

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
