#include <cmath>
#include <vector>

#include "kernels/norm/norm_backward.h"
#include "kernels/ref/column_blocks.h"

namespace butterfly::kernels::ref {

void batch_norm_forward(const BatchNorm& norm, const float* x, float* mean, float* variance, float* y) {
  const auto n = static_cast<float>(norm.rows);
  const auto at = [&](size_t i, size_t j) { return x[i * norm.channels + j]; };
  column_blocks(norm.rows, norm.channels, false, mean,
                [&](float acc, size_t i, size_t j) { return acc + at(i, j); });
  for (size_t j = 0; j < norm.channels; ++j) mean[j] = mean[j] / n;
  column_blocks(norm.rows, norm.channels, false, variance, [&](float acc, size_t i, size_t j) {
    const float centred = at(i, j) - mean[j];
    return std::fma(centred, centred, acc);
  });
  for (size_t j = 0; j < norm.channels; ++j) variance[j] = variance[j] / n;
  batch_norm_apply(norm, x, mean, variance, y);
}

void batch_norm_apply(const BatchNorm& norm, const float* x, const float* mean, const float* variance,
                      float* y) {
  for (size_t i = 0; i < norm.rows; ++i)
    for (size_t j = 0; j < norm.channels; ++j) {
      const size_t at = i * norm.channels + j;
      const float factor =
          (norm.weight == nullptr ? 1.0f : norm.weight[j]) / std::sqrt(variance[j] + norm.eps);
      y[at] = std::fma(x[at] - mean[j], factor, norm.bias == nullptr ? 0.0f : norm.bias[j]);
    }
}

void batch_norm_backward(const BatchNorm& norm, const float* x, const float* mean, const float* variance,
                         const float* dy, float* dx, float* dweight, float* dbias, bool accumulate) {
  const auto n = static_cast<float>(norm.rows);
  std::vector<float> inverse(norm.channels), along(norm.channels), total(norm.channels);
  for (size_t j = 0; j < norm.channels; ++j) inverse[j] = 1.0f / std::sqrt(variance[j] + norm.eps);
  const auto unit = [&](size_t i, size_t j) { return (x[i * norm.channels + j] - mean[j]) * inverse[j]; };
  column_blocks(norm.rows, norm.channels, false, along.data(), [&](float acc, size_t i, size_t j) {
    return std::fma(dy[i * norm.channels + j], unit(i, j), acc);
  });
  column_sums(dy, norm.rows, norm.channels, norm.channels, false, total.data());
  for (size_t i = 0; dx != nullptr && i < norm.rows; ++i)
    for (size_t j = 0; j < norm.channels; ++j) {
      const float factor = norm.weight == nullptr ? inverse[j] : norm.weight[j] * inverse[j];
      const size_t at = i * norm.channels + j;
      dx[at] = factor * std::fma(-unit(i, j), along[j] / n, dy[at] - total[j] / n);
    }
  for (size_t j = 0; j < norm.channels; ++j) {
    if (dweight != nullptr) dweight[j] = accumulate ? dweight[j] + along[j] : along[j];
    if (dbias != nullptr) dbias[j] = accumulate ? dbias[j] + total[j] : total[j];
  }
}

}  // namespace butterfly::kernels::ref
