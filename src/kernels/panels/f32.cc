// F32 panels: floats as they are.
#include "kernels/panels/float_types.h"
#include "kernels/panels/pack_table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/panels/f32.cc"
#include "hwy/foreach_target.h"
#include "kernels/panels/float_types-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {
namespace {

void pack_full(const FullPanel& panel) { PackFullFloats<float>(panel); }

#if HWY_TARGET == HWY_SCALAR
void matmul_panels(const MatmulJob& job) { ref::matmul_panels(DType::kF32, job); }
#else
struct F32 {
  using Value = float;
  static HWY_INLINE VF Load(const float* from) { return hn::LoadU(DF(), from); }
};
void matmul_panels(const MatmulJob& job) { FloatPanels<F32>(job); }
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

constinit const PackFormat f32_panels = float_format<float>(DType::kF32, best_pack_full, best_matmul);

}  // namespace butterfly::kernels
#endif  // HWY_ONCE
