// y = x W^T + b, and low-rank additions to it.
#pragma once
#include <span>
#include <vector>

#include "nn/builder.h"

namespace butterfly::nn {

using graph::kNoSite;
using graph::LowRank;

// x W^T: with packed weights, or with plain floats. `shard_unit` as for graph::matmul.
ValueId build_product(Builder& b, ValueId x, const Parameter& weight, size_t shard_unit = 0);

// Who has which logical shards of a row-parallel layer that a group of members computes together.
struct ShardOwners {
  std::vector<graph::MemberRange> of;  // by member; empty: all shards are here
  size_t self = 0;
  size_t cols = 0;  // of the whole layer
  size_t unit = 0;  // columns of a unit of logical shards
  size_t out = 0;   // rows of the layer: a member without a shard has no matrix

  explicit operator bool() const { return !of.empty(); }
  kernels::Shards shards() const { return {unit, cols}; }
  // The columns of a member, and those that are here.
  graph::MemberRange columns(size_t member) const {
    return {shards().begin(of[member].begin), shards().begin(of[member].end)};
  }
  graph::MemberRange columns() const { return columns(self); }
};

// Weight [out, in]; the bias is optional. Adapters are added in order, before the bias.
struct Linear {
  Parameter weight;
  Parameter bias = {};
  std::vector<LowRank> adapters = {};
  float scale = 1;  // of the product alone, where a file has the scale of a whole matrix apart
  // What it reads is split over nodes where a layer is shared (attention output, feed-forward down): its sum
  // is one of logical shards, and so is that of an adapter's A, with the same cuts, so that a node can send
  // its part of both.
  bool row_parallel = false;
  // Where rows may name adapters (Builder::row_adapters()): the layer's number in those; added behind its
  // own.
  size_t site = kNoSite;
  // With owners the weight and the adapters' A have the columns of this member only, and are empty where it
  // has none; bias and B are whole.
  ShardOwners owners = {};

  explicit operator bool() const { return static_cast<bool>(weight); }
  size_t in() const { return weight.cols(); }
  size_t out() const { return weight.rows(); }
  // Columns of a unit of logical shards; 0 unless row_parallel.
  size_t shard_unit() const;
  ValueId build(Builder& b, ValueId x) const;

  // For a layer with owners, in two steps, so that one exchange can serve several layers: what this member
  // has of the product and of each adapter's, for `rows` rows x [rows, columns here] (not read where it has
  // no shard); and what becomes of them once they are whole, as many values as parts.
  void add_parts(Builder& b, ValueId x, size_t rows, std::vector<graph::ExchangePart>& parts) const;
  size_t part_count() const { return 1 + adapters.size(); }
  ValueId finish(Builder& b, std::span<const ValueId> whole) const;
  // Both, with an exchange of its own.
  ValueId build_shared(Builder& b, ValueId x, size_t rows) const;
  // The layer, shared or not. With owners x has the columns of this member from column `before` on, and
  // perhaps some behind them.
  ValueId build_behind(Builder& b, ValueId x, size_t before) const;
};

// Several layers over the same input. Those that read the same form of it become one product, split over
// threads as one.
std::vector<ValueId> build_linears(Builder& b, ValueId x, std::span<const Linear* const> layers);

}  // namespace butterfly::nn
