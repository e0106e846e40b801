// y = x W^T + b, and low-rank additions to it.
#pragma once
#include <span>
#include <vector>

#include "nn/builder.h"

namespace butterfly::nn {

// x W^T: with packed weights, or with plain floats.
ValueId build_product(Builder& b, ValueId x, const Parameter& weight);

// Adds scale * B (A x). The product B A is never formed: at rank r it costs r (in + out) per row instead of
// in * out.
struct LowRank {
  Parameter a;  // [rank, in], floats
  Parameter b;  // [out, rank], floats
  float scale = 1;
};

// Weight [out, in]; the bias is optional. Adapters are added in order, before the bias.
struct Linear {
  Parameter weight;
  Parameter bias = {};
  std::vector<LowRank> adapters = {};

  explicit operator bool() const { return static_cast<bool>(weight); }
  size_t in() const { return weight.cols(); }
  size_t out() const { return weight.rows(); }
  ValueId build(Builder& b, ValueId x) const;
};

// Several layers over the same input. Those that read the same form of it become one product, split over
// threads as one.
std::vector<ValueId> build_linears(Builder& b, ValueId x, std::span<const Linear* const> layers);

}  // namespace butterfly::nn
