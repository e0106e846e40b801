// Q5_1 panels: five bits, one scale and one minimum per 32 columns.
#include "kernels/quant/q5_1.h"
#include "kernels/panels/pack_table.h"
#include "kernels/panels/q32.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/panels/q5_1.cc"
#include "hwy/foreach_target.h"
#include "kernels/panels/q32-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {
namespace {

struct Q5_1 : Q32Layout<BlockQ5_1> {
  static constexpr DType kType = DType::kQ5_1;
  static constexpr int32_t kOffset = 0;
};

void pack_full(const FullPanel& panel) { PackFullQ32<Q5_1>(panel); }
void matmul_panels(const MatmulJob& job) { MatmulUnsigned<Q5_1>(job); }

}  // namespace
}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
using HWY_NAMESPACE::Q5_1;
HWY_EXPORT(pack_full);
HWY_EXPORT(matmul_panels);
void best_pack_full(const FullPanel& panel) { HWY_DYNAMIC_DISPATCH(pack_full)(panel); }
void best_matmul(const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(matmul_panels)(job); }
}  // namespace

constinit const PackFormat q5_1_panels = q32_format<Q5_1>(best_pack_full, best_matmul);

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
