// y = x W^T + b.
#pragma once
#include <span>
#include <vector>

#include "nn/builder.h"

namespace butterfly::nn {

// Weight [out, in]; the bias is optional.
struct Linear {
  Parameter weight;
  Parameter bias;

  size_t in() const { return weight.packed.cols(); }
  size_t out() const { return weight.packed.rows(); }
  ValueId build(Builder& b, ValueId x) const;
};

// Several layers over the same input. Those that read the same form of it become one product, split over
// threads as one.
std::vector<ValueId> build_linears(Builder& b, ValueId x, std::span<const Linear* const> layers);

}  // namespace butterfly::nn
