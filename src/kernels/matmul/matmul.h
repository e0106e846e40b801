// y = x * W^T for packed weights and activation rows. What an output is, exactly:
//
//   F32, F16, BF16:  acc = fma(x[k], w[k], acc) for k = 0, 1, 2, ...
//   quantised:       for each block b in order, with the exact integers of IntBlock and the quantised
//   activations
//                      s = sum over groups of scale * sum(q * a),  t = sum over groups of min * sum(a)
//                      acc = fma(float(s), d_w * d_a, acc);  if the type has minimums: acc = fma(float(t),
//                      -(dmin * d_a), acc)
//
// starting from acc = 0. Tiling, batch, threads and target change only the speed.
//
// A row-parallel product (attention output, feed-forward down) is one such chain per logical shard of its
// columns, and the tree over them (tiles/shards.h).
#pragma once
#include <cstddef>

#include "kernels/matmul/packed_matrix.h"

namespace butterfly::kernels {

// Rows [row_begin, row_end) of the matrix for m activation rows: y[i * y_stride + r]. `acts` holds rows of
// the form weights.act() (see activation_rows.h; floats for kF32), act_stride bytes apart. row_begin is a
// multiple of kPanelRows.
void matmul(const PackedMatrix& weights, const std::byte* acts, size_t act_stride, size_t m, float* y,
            size_t y_stride, size_t row_begin, size_t row_end);

// The same for a product that is summed by shards: y[i * y_stride + s * subtree_stride + r] for every subtree
// s of `cuts`, which cover all columns of the matrix; they may be some neighbouring shards of a layer whose
// other columns are elsewhere. sum_subtrees() (subtree_sums.h) makes the layer's outputs of them.
void matmul_shards(const PackedMatrix& weights, const ShardCuts& cuts, const std::byte* acts,
                   size_t act_stride, size_t m, float* y, size_t y_stride, size_t subtree_stride,
                   size_t row_begin, size_t row_end);

}  // namespace butterfly::kernels
