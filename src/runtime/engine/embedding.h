// One vector for a text: the mean of its rows, or its last row, of length 1.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace butterfly::runtime {

// Rows come in order of position, in pieces of any size; the sum is in that order, so pieces change nothing.
// Of one thread.
class EmbeddingPool {
 public:
  void add(std::span<const float> rows, size_t dim);  // [n, dim]
  // All zeros stay zeros.
  std::vector<float> result() const;

 private:
  std::vector<double> sum_;
};

}  // namespace butterfly::runtime
