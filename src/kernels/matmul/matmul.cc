#include "kernels/matmul/matmul.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/matmul/matmul_blocks.h"
#include "kernels/panels/pack_table.h"
#include "kernels/simd/target.h"

namespace butterfly::kernels {

void matmul_shards(const PackedMatrix& weights, const ShardCuts& cuts, const std::byte* acts,
                   size_t act_stride, size_t m, float* y, size_t y_stride, size_t subtree_stride,
                   size_t row_begin, size_t row_end) {
  BF_DCHECK(row_begin % kPanelRows == 0 && row_end <= weights.rows()) << row_begin << " " << row_end;
  BF_DCHECK(row_end == weights.rows() || row_end % kPanelRows == 0) << row_end;
  BF_DCHECK(cuts.cols() == weights.cols()) << cuts.cols() << " " << weights.cols();
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
                      .y_stride = y_stride,
                      .cuts = cuts,
                      .subtree_stride = subtree_stride};
  const PackFormat* format = weights.format();
  if (format == nullptr) {
    matmul_blocks(weights.dtype(), job);
  } else if (format->tiles.takes(m) && weights.cols() > 0 && tiles_chosen()) {
    format->tiles.matmul(job);
  } else {
    format->matmul(job);
  }
}

void matmul(const PackedMatrix& weights, const std::byte* acts, size_t act_stride, size_t m, float* y,
            size_t y_stride, size_t row_begin, size_t row_end) {
  matmul_shards(weights, ShardCuts::none(weights.cols()), acts, act_stride, m, y, y_stride, 0, row_begin,
                row_end);
}

}  // namespace butterfly::kernels
