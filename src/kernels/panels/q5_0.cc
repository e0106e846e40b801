// Q5_0 panels: five bits less 16, one scale per 32 columns.
#if defined(__x86_64__)
#include "kernels/amx/amx_bytes.h"
#endif
#include "kernels/panels/pack_table.h"
#include "kernels/panels/q32.h"
#include "kernels/quant/q5_0.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/panels/q5_0.cc"
#include "hwy/foreach_target.h"
#include "kernels/panels/q32-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {
namespace {

struct Q5_0 : Q32Layout<BlockQ5_0> {
  static constexpr DType kType = DType::kQ5_0;
  static constexpr int32_t kOffset = 16;
};

void pack_full(const FullPanel& panel) { PackFullQ32<Q5_0>(panel); }
void matmul_panels(const MatmulJob& job) { MatmulUnsigned<Q5_0>(job); }

}  // namespace
}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
using HWY_NAMESPACE::Q5_0;
HWY_EXPORT(pack_full);
HWY_EXPORT(matmul_panels);
void best_pack_full(const FullPanel& panel) { HWY_DYNAMIC_DISPATCH(pack_full)(panel); }
void best_matmul(const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(matmul_panels)(job); }

#if defined(__x86_64__)
// 32 columns as bytes.
struct Unpack {
  static constexpr size_t kSubBytes = panel::kFiveBitSub;
  BF_AMX_INLINE static void run(const uint8_t* sub, int8_t* to) {
    BF_UNROLL
    for (size_t i = 0; i < 8; ++i)
      _mm512_store_si512(to + i * 64, _mm512_sub_epi8(amx::five_bits(sub, i), _mm512_set1_epi8(16)));
  }
};
// From 6 rows on unpacking is paid for (Sapphire Rapids, kernels_bench matmul/ and bench --streams).
constexpr TileMatmul kTiles = {6, amx::matmul_bytes<Unpack>};
#else
constexpr TileMatmul kTiles = {};
#endif
}  // namespace

constinit const PackFormat q5_0_panels = q32_format<Q5_0>(best_pack_full, best_matmul, kTiles);

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
