// dX = dY W through packed weights: the gradient of the rows that matmul() read. What a value is, exactly:
//
//   acc = accumulate ? dx[i][j] : 0;  acc = fma(dy[i][r], float(W[r][j]), acc) for r = 0, 1, 2, ...
//
// that is gemm() with W as floats, of which only a few rows exist at a time. (That rows were quantised for
// the product is passed over: the slope of the line that rounding follows.)
#pragma once
#include "base/thread_pool.h"
#include "kernels/matmul/packed_matrix.h"

namespace butterfly::kernels {

// dy: m rows of weights.rows() floats, dy_stride apart; dx: m rows of weights.cols(), dx_stride apart.
void matmul_dx(const PackedMatrix& weights, const float* dy, size_t dy_stride, size_t m, float* dx,
               size_t dx_stride, bool accumulate, ThreadPool& pool);

}  // namespace butterfly::kernels
