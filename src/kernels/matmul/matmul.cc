#include "kernels/matmul/matmul.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/amx/amx.h"
#include "kernels/panels/pack_table.h"
#include "kernels/simd/target.h"

namespace butterfly::kernels {

void matmul(const PackedMatrix& weights, const std::byte* acts, size_t act_stride, size_t m, float* y,
            size_t y_stride, size_t row_begin, size_t row_end) {
  BF_DCHECK(row_begin % kPanelRows == 0 && row_end <= weights.rows()) << row_begin << " " << row_end;
  BF_DCHECK(row_end == weights.rows() || row_end % kPanelRows == 0) << row_end;
  if (row_begin >= row_end || m == 0) return;
  const MatmulJob job{.panels = weights.panel(0),
                      .panel_bytes = weights.panel_bytes(),
                      .panel_begin = row_begin / kPanelRows,
                      .panel_end = (row_end + kPanelRows - 1) / kPanelRows,
                      .rows = weights.rows(),
                      .cols = weights.cols(),
                      .acts = acts,
                      .act_stride = act_stride,
                      .m = m,
                      .y = y,
                      .y_stride = y_stride};
  if (tiles_chosen() && weights.cols() > 0 && amx::takes(weights.dtype(), m)) {
    amx::matmul(weights.dtype(), job);
  } else if (weights.repacked()) {
    weights.format()->matmul(job);
  } else {
    matmul_blocks(weights.dtype(), job);
  }
}

}  // namespace butterfly::kernels
