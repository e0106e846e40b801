// Products of float panels with many rows, and what they share with those of few.
#if defined(BUTTERFLY_KERNELS_FLOAT_GRID_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BUTTERFLY_KERNELS_FLOAT_GRID_INL_H_
#undef BUTTERFLY_KERNELS_FLOAT_GRID_INL_H_
#else
#define BUTTERFLY_KERNELS_FLOAT_GRID_INL_H_
#endif

#include <algorithm>

#include "kernels/tiles/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace butterfly::kernels::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

HWY_INLINE TileOut OutOf(const MatmulJob& job, size_t row, size_t panel_index) {
  const size_t first = panel_index * kPanelRows;
  return {job.y + row * job.y_stride + first, job.y_stride, std::min(kPanelRows, job.rows - first),
          job.subtree_stride};
}

// Rows [row, row + height) of one block, column by column. Rows that do not exist repeat the last one.
HWY_INLINE void PackActs(const MatmulJob& job, size_t row, size_t height, size_t k0, size_t depth,
                         float* to) {
  for (size_t m = 0; m < height; ++m) {
    const size_t at = std::min(row + m, job.m - 1);
    const float* x = reinterpret_cast<const float*>(job.acts + at * job.act_stride) + k0;
    for (size_t k = 0; k < depth; ++k) to[k * height + m] = x[k];
  }
}

// How a float type becomes plain floats.
struct WidenedType {
  // Columns [k0, k0 + depth) of `panels` panels from `panel_index` on: to[depth][panels][kPanelRows].
  void (*widen)(const MatmulJob& job, size_t panel_index, size_t panels, size_t k0, size_t depth, float* to);
  size_t value_bytes;
};

// float_grid.cc: any number of rows; pays from kGridFrom on. Once per target for all types.
void GridRows(const MatmulJob& job, const WidenedType& type);

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace butterfly::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
