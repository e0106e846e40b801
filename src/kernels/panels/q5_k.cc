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

#if defined(__x86_64__)
struct Unpack {
  static constexpr size_t kSubBytes = Q5_K::kSubBytes, kScaleBytes = Q5_K::kScaleBytes;
  BF_AMX_INLINE static __m512i chunk(const uint8_t* sub, size_t chunk) { return amx::five_bits(sub, chunk); }
  BF_AMX_INLINE static void scales(const uint8_t* scale, size_t sub, __m512i to[2]) {
    amx::byte_scales(scale, sub, to);
  }
};
void matmul_tiles(const MatmulJob& job) {
  amx::matmul_k(job, {amx::unpack_k<Unpack>, Q5_K::kSubBytes, Q5_K::kScaleBytes, panel::kKDOffset, true});
}
// Unpacking is paid for by more rows than one tile has (Sapphire Rapids, kernels_bench matmul/ and bench
// --streams).
constexpr TileMatmul kTiles = {amx::kTileRows + 1, matmul_tiles};
#else
constexpr TileMatmul kTiles = {};
#endif
}  // namespace

constinit const PackFormat q5_k_panels = {
    .dtype = DType::kQ5_K,
    .panel_bytes = Q5_K::panel_bytes,
    .pack = Q5_K::pack,
    .pack_full =
        [](const FullPanel& panel) {
          HWY_DYNAMIC_DISPATCH(pack_full)
          (panel);
        },
    .unpack = Q5_K::unpack,
    .matmul =
        [](const MatmulJob& job) {
          HWY_DYNAMIC_DISPATCH(matmul_panels)
          (job);
        },
    .tiles = kTiles,
};

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
