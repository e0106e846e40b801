// A weight of a model, as the file holds it and as products want it.
#pragma once
#include <string>
#include <vector>

#include "kernels/packed_matrix.h"
#include "tensor/tensor.h"

namespace butterfly::graph {

// Owned by the model; graphs borrow it and must not outlive it.
struct Parameter {
  std::string name;
  Tensor value;                  // matrices may drop it once packed
  kernels::PackedMatrix packed;  // matrices only
  explicit operator bool() const { return value || packed; }
};

// One matrix per expert, all of one shape and type. Ownership as above.
struct ExpertParameter {
  std::string name;
  std::vector<kernels::PackedMatrix> experts;
};

}  // namespace butterfly::graph
