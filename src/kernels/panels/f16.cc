// F16 panels: half precision, widened when it is multiplied.
#include "kernels/panels/float_types.h"
#include "kernels/panels/pack_table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/panels/f16.cc"
#include "hwy/foreach_target.h"
#include "kernels/panels/float_types-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {
namespace {

void pack_full(const FullPanel& panel) { PackFullFloats<uint16_t>(panel); }

#if HWY_TARGET == HWY_SCALAR
void matmul_panels(const MatmulJob& job) { ref::matmul_panels(DType::kF16, job); }
#else
struct F16 {
  using Value = uint16_t;
  static HWY_INLINE VF Load(const uint16_t* from) { return LoadF16(from); }
};
void matmul_panels(const MatmulJob& job) { FloatPanels<F16>(job); }
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

constinit const PackFormat f16_panels = float_format<uint16_t>(DType::kF16, best_pack_full, best_matmul);

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
