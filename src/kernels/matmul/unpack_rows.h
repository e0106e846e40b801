// Weights of a packed matrix as floats again, a part at a time: what gradients through frozen weights read.
#pragma once
#include "kernels/matmul/packed_matrix.h"

namespace butterfly::kernels {

// Rows [row_begin, row_end) and columns [col_begin, col_end) of the matrix: to[(row - row_begin) * stride +
// col - col_begin], exactly the numbers that to_float() makes of the file's. Column bounds are multiples of
// the type's block. Any number of threads may call it.
void unpack_rows(const PackedMatrix& weights, size_t row_begin, size_t row_end, size_t col_begin,
                 size_t col_end, float* to, size_t stride);

}  // namespace butterfly::kernels
