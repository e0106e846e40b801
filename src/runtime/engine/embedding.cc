#include "runtime/engine/embedding.h"

#include <cmath>

#include "base/check.h"

namespace butterfly::runtime {

void EmbeddingPool::add(std::span<const float> rows, size_t dim) {
  sum_.resize(dim);
  BF_CHECK(rows.size() % dim == 0) << rows.size() << " values in rows of " << dim;
  for (size_t begin = 0; begin < rows.size(); begin += dim)
    for (size_t i = 0; i < dim; ++i) sum_[i] += double{rows[begin + i]};
}

std::vector<float> EmbeddingPool::result() const {
  // The mean and the sum point the same way, so the count does not matter.
  double squares = 0;
  for (const double value : sum_) squares += value * value;
  const double length = std::sqrt(squares);
  std::vector<float> vector(sum_.size(), 0.0f);
  if (length > 0)
    for (size_t i = 0; i < sum_.size(); ++i) vector[i] = static_cast<float>(sum_[i] / length);
  return vector;
}

}  // namespace butterfly::runtime
