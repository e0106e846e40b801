// Sums over columns that stand in panels of 16, the same on every width of vectors: 16 parts, then a tree of
// halves. Included once per target.
#if defined(BUTTERFLY_KERNELS_RECURRENT_PANEL_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BUTTERFLY_KERNELS_RECURRENT_PANEL_SUMS_INL_H_
#undef BUTTERFLY_KERNELS_RECURRENT_PANEL_SUMS_INL_H_
#else
#define BUTTERFLY_KERNELS_RECURRENT_PANEL_SUMS_INL_H_
#endif

#include "kernels/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

inline constexpr size_t kPanelVectors = 16 / kVF;

// The sum of 16 parts in kPanelVectors vectors.
HWY_INLINE float PanelTotal(const VF* parts) { return TreeTotal<kPanelVectors>(parts); }

// to[i] += the sum of the 16 parts at parts + 16 i.
HWY_INLINE void AddPanelTotals(const float* parts, float* to, size_t count) {
  const DF d;
  for (size_t i = 0; i < count; ++i) {
    VF v[kPanelVectors];
    BF_UNROLL
    for (size_t p = 0; p < kPanelVectors; ++p) v[p] = hn::LoadU(d, parts + i * 16 + p * kVF);
    to[i] += PanelTotal(v);
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
