// y = x W^T + b, and low-rank additions to it.
#pragma once
#include <span>
#include <vector>

#include "nn/builder.h"

namespace butterfly::nn {

// x W^T: with packed weights, or with plain floats. `shard_unit` as for graph::matmul.
ValueId build_product(Builder& b, ValueId x, const Parameter& weight, size_t shard_unit = 0);

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
  // What it reads is split over nodes where a layer is shared (attention output, feed-forward down): its sum
  // is one of logical shards, and so is that of an adapter's A, with the same cuts, so that a node can send
  // its part of both.
  bool row_parallel = false;

  explicit operator bool() const { return static_cast<bool>(weight); }
  size_t in() const { return weight.cols(); }
  size_t out() const { return weight.rows(); }
  // Columns of a unit of logical shards; 0 unless row_parallel.
  size_t shard_unit() const;
  ValueId build(Builder& b, ValueId x) const;
};

// Several layers over the same input. Those that read the same form of it become one product, split over
// threads as one.
std::vector<ValueId> build_linears(Builder& b, ValueId x, std::span<const Linear* const> layers);

}  // namespace butterfly::nn
