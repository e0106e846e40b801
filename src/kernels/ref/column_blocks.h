// The plain form of every long sum down the columns of a matrix: blocks of kPositionBlock rows.
#pragma once
#include <algorithm>
#include <cstddef>

#include "kernels/simd/position_block.h"

namespace butterfly::kernels::ref {

// acc = add(acc, row, col) from 0 over the rows of a block; out[col] = out[col] + acc block by block, from 0
// unless `accumulate`.
template <class F>
void column_blocks(size_t rows, size_t cols, bool accumulate, float* out, F&& add) {
  if (!accumulate) std::fill_n(out, cols, 0.0f);
  for (size_t begin = 0; begin < rows; begin += kPositionBlock) {
    const size_t end = std::min(rows, begin + kPositionBlock);
    for (size_t col = 0; col < cols; ++col) {
      float acc = 0;
      for (size_t row = begin; row < end; ++row) acc = add(acc, row, col);
      out[col] += acc;
    }
  }
}

}  // namespace butterfly::kernels::ref
