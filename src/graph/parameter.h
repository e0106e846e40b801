// A weight of a model, as the file holds it and as products want it.
#pragma once
#include <string>
#include <vector>

#include "kernels/matmul/packed_matrix.h"
#include "tensor/tensor.h"

namespace butterfly::graph {

// Owned by the model; graphs borrow it and must not outlive it.
struct Parameter {
  std::string name;
  Tensor value;                       // matrices may drop it once packed
  kernels::PackedMatrix packed = {};  // matrices only; without it products read `value`, as floats
  bool trainable = false;             // gradients are wanted; `value` holds floats
  // With `trainable`: not learnt but measured (a running mean); its gradient is the value of the batch.
  bool statistic = false;
  explicit operator bool() const { return value || packed; }
  // Of a matrix.
  size_t rows() const { return packed ? packed.rows() : static_cast<size_t>(value.size(0)); }
  size_t cols() const { return packed ? packed.cols() : static_cast<size_t>(value.size(1)); }
};

// One matrix per expert, all of one shape and type. Ownership as above.
struct ExpertParameter {
  std::string name;
  std::vector<kernels::PackedMatrix> experts;
  size_t first = 0;  // number of the first one that is here: the others may be elsewhere
  Tensor bias = {};  // [experts that are here, rows of a matrix], floats; may be empty
};

}  // namespace butterfly::graph
