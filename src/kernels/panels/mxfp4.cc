// MXFP4 panels: nibbles that point at small integers, one power of two per 32 columns. The points are kept
// unsigned, 12 above their values: products of unsigned bytes are the cheaper ones on x86.
#include "kernels/quant/mxfp4.h"
#include "kernels/panels/pack_table.h"
#include "kernels/panels/q32.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/panels/mxfp4.cc"
#include "hwy/foreach_target.h"
#include "kernels/panels/q32-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {
namespace {

struct MXFP4 : Q32Layout<BlockMXFP4> {
  static constexpr DType kType = DType::kMXFP4;
  static constexpr int32_t kOffset = 12;
  static constexpr size_t kTableMax = 24;
  static constexpr std::array<uint8_t, 16> kTable = [] {
    std::array<uint8_t, 16> table{};
    for (size_t i = 0; i < 16; ++i) table[i] = static_cast<uint8_t>(kMxfp4Points[i] + kOffset);
    return table;
  }();
  static int weight(uint8_t quant) { return kMxfp4Points[quant]; }
};

void pack_full(const FullPanel& panel) { PackFullQ32<MXFP4>(panel); }
void matmul_panels(const MatmulJob& job) { MatmulUnsigned<MXFP4>(job); }

}  // namespace
}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
using HWY_NAMESPACE::MXFP4;
HWY_EXPORT(pack_full);
HWY_EXPORT(matmul_panels);
void best_pack_full(const FullPanel& panel) { HWY_DYNAMIC_DISPATCH(pack_full)(panel); }
void best_matmul(const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(matmul_panels)(job); }
}  // namespace

constinit const PackFormat mxfp4_panels = q32_format<MXFP4>(best_pack_full, best_matmul);

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
