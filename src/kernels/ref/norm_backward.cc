#include "kernels/norm/norm_backward.h"

#include <cmath>
#include <vector>

#include "kernels/ref/column_blocks.h"
#include "kernels/rows/reduce.h"
#include "kernels/simd/lanes.h"

namespace butterfly::kernels::ref {
namespace {

// Lane sum of value(i).
template <class F>
float lane_sum(size_t count, F&& add) {
  float lanes[kLogicalLanes] = {};
  for (size_t i = 0; i < count; ++i) {
    float& lane = lanes[i % kLogicalLanes];
    lane = add(lane, i);
  }
  return reduce_lanes(lanes);
}

// unit(row, col): what dweight multiplies dy with.
template <class F>
void parameter_gradients(const NormGradient& job, F&& unit) {
  if (job.dweight != nullptr)
    column_blocks(job.rows, job.cols, job.accumulate, job.dweight, [&](float acc, size_t i, size_t j) {
      return std::fma(job.dy[job.row_begin(i) + j], unit(i, j), acc);
    });
  if (job.dbias != nullptr)
    column_sums(job.dy, job.rows, job.cols, job.row_begin(1), job.accumulate, job.dbias);
}

}  // namespace

void column_sums(const float* x, size_t rows, size_t cols, size_t stride, bool accumulate, float* out) {
  column_blocks(rows, cols, accumulate, out,
                [&](float acc, size_t i, size_t j) { return acc + x[i * stride + j]; });
}

void layer_norm_backward(const NormGradient& job) {
  const auto n = static_cast<float>(job.cols);
  std::vector<float> means(job.rows), scales(job.rows);
  for (size_t row = 0; row < job.rows; ++row) {
    const float* x = job.x + job.row_begin(row);
    means[row] = sum(x, job.cols) / n;
    const float squares = lane_sum(job.cols, [&](float lane, size_t i) {
      const float centred = x[i] - means[row];
      return std::fma(centred, centred, lane);
    });
    scales[row] = 1.0f / std::sqrt(squares / n + job.eps);
  }
  const auto unit = [&](size_t row, size_t col) {
    return (job.x[job.row_begin(row) + col] - means[row]) * scales[row];
  };
  parameter_gradients(job, unit);  // before dx, which may be dy
  if (job.dx == nullptr) return;
  for (size_t row = 0; row < job.rows; ++row) {
    const float* dy = job.dy + job.row_begin(row);
    const auto g = [&](size_t i) { return job.weight == nullptr ? dy[i] : dy[i] * job.weight[i]; };
    const float mean_g = lane_sum(job.cols, [&](float lane, size_t i) { return lane + g(i); }) / n;
    const float mean_gx =
        lane_sum(job.cols, [&](float lane, size_t i) { return std::fma(g(i), unit(row, i), lane); }) / n;
    for (size_t i = 0; i < job.cols; ++i)
      job.dx[job.row_begin(row) + i] = scales[row] * std::fma(-unit(row, i), mean_gx, g(i) - mean_g);
  }
}

void rms_norm_backward(const NormGradient& job) {
  const auto n = static_cast<float>(job.cols);
  std::vector<float> scales(job.rows);
  for (size_t row = 0; row < job.rows; ++row)
    scales[row] = 1.0f / std::sqrt(sum_squares(job.x + job.row_begin(row), job.cols) / n + job.eps);
  parameter_gradients(job,
                      [&](size_t row, size_t col) { return job.x[job.row_begin(row) + col] * scales[row]; });
  if (job.dx == nullptr) return;
  for (size_t row = 0; row < job.rows; ++row) {
    const float* x = job.x + job.row_begin(row);
    const float* dy = job.dy + job.row_begin(row);
    const auto g = [&](size_t i) { return job.weight == nullptr ? dy[i] : dy[i] * job.weight[i]; };
    const float s = scales[row];
    const float along = lane_sum(job.cols, [&](float lane, size_t i) { return std::fma(g(i), x[i], lane); }) /
                        n * (s * s * s);
    for (size_t i = 0; i < job.cols; ++i) job.dx[job.row_begin(row) + i] = std::fma(-x[i], along, s * g(i));
  }
}

}  // namespace butterfly::kernels::ref
