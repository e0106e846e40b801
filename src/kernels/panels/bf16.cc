// BF16 panels: the upper halves of floats, widened when they are multiplied.
#include "kernels/panels/float_types.h"
#include "kernels/panels/pack_table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/panels/bf16.cc"
#include "hwy/foreach_target.h"
#include "kernels/panels/float_types-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {
namespace {

void pack_full(const FullPanel& panel) { PackFullFloats<uint16_t>(panel); }

#if HWY_TARGET == HWY_SCALAR
void matmul_panels(const MatmulJob& job) { ref::matmul_panels(DType::kBF16, job); }
#else
struct BF16 {
  using Value = uint16_t;
  static HWY_INLINE VF Load(const uint16_t* from) { return LoadBF16(from); }
};
void matmul_panels(const MatmulJob& job) { FloatPanels<BF16>(job); }
#endif

}  // namespace
}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace butterfly::kernels {
namespace {
HWY_EXPORT(pack_full);
HWY_EXPORT(matmul_panels);
void best_pack_full(const FullPanel& panel) { HWY_DYNAMIC_DISPATCH(pack_full)(panel); }
void best_matmul(const MatmulJob& job) { HWY_DYNAMIC_DISPATCH(matmul_panels)(job); }
}  // namespace

constinit const PackFormat bf16_panels = float_format<uint16_t>(DType::kBF16, best_pack_full, best_matmul);

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
