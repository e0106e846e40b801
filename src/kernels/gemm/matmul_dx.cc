#include "kernels/gemm/matmul_dx.h"

#include <algorithm>

#include "kernels/gemm/gemm.h"
#include "kernels/matmul/unpack_rows.h"
#include "tensor/buffer.h"

namespace butterfly::kernels {
namespace {

// Rows of W that exist as floats: enough for the chain of a product, few enough for the second-level cache.
constexpr size_t kTileRows = 128;
constexpr size_t kTileFloats = 128 * 1024;
// Between rows of a tile, so that those of a panel, which are written side by side, do not fall on one
// another in the nearest cache.
constexpr size_t kRowGap = 16;
// Columns that one thread unpacks at least.
constexpr size_t kColumnsMin = 256;

float* scratch(size_t floats) {
  thread_local Buffer buffer;
  if (buffer.size() < floats * sizeof(float)) buffer = Buffer::allocate(floats * sizeof(float));
  return reinterpret_cast<float*>(buffer.data());
}

}  // namespace

// Threads share the columns first, since a column is unpacked by one of them only; then the rows of dY.
void matmul_dx(const PackedMatrix& weights, const float* dy, size_t dy_stride, size_t m, float* dx,
               size_t dx_stride, bool accumulate, ThreadPool& pool) {
  const size_t in = weights.cols(), out = weights.rows();
  if (m == 0 || in == 0) return;
  const size_t units = (in + kColumnsMin - 1) / kColumnsMin;
  const size_t column_parts = std::min(pool.size(), units);
  const size_t row_parts = std::min(m, std::max<size_t>(1, pool.size() / column_parts));
  pool.run([&](size_t worker) {
    if (worker >= column_parts * row_parts) return;
    const size_t column = worker % column_parts, row = worker / column_parts;
    const size_t begin = units * column / column_parts * kColumnsMin;
    const size_t end = std::min(in, units * (column + 1) / column_parts * kColumnsMin);
    const size_t first = m * row / row_parts, count = m * (row + 1) / row_parts - first;
    // Wide parts in strips, so that a tile stays in the cache.
    const size_t strip = std::max(kColumnsMin, kTileFloats / kTileRows / kColumnsMin * kColumnsMin);
    const size_t stride = std::min(strip, end - begin) + kRowGap;
    float* tile = scratch(kTileRows * stride);
    for (size_t from = begin; from < end; from += strip) {
      const size_t cols = std::min(strip, end - from);
      float* to = dx + first * dx_stride + from;
      if (out == 0 && !accumulate)
        for (size_t i = 0; i < count; ++i) std::fill_n(to + i * dx_stride, cols, 0.0f);
      for (size_t r = 0; r < out; r += kTileRows) {
        const size_t rows = std::min(kTileRows, out - r);
        unpack_rows(weights, r, r + rows, from, from + cols, tile, stride);
        gemm({.m = count,
              .n = cols,
              .k = rows,
              .a = {dy + first * dy_stride + r, dy_stride},
              .b = {tile, stride},
              .c = to,
              .c_stride = dx_stride,
              .accumulate = accumulate || r > 0});
      }
    }
  });
}

}  // namespace butterfly::kernels
