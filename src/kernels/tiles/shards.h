// Logical shards: the order in which a row-parallel product (attention output, feed-forward down) is summed,
// so that any split of its columns over machines gives the bits of one machine
// (docs/decisions/0012-shard-sums.md).
//
// The columns are counted in units. With U units there are n = the largest power of two <= min(8, U) shards,
// and shard i begins at unit floor(i * U / n). Each shard is summed from zero in block order; the n sums are
// added by a perfect binary tree: ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7)). Who holds some
// neighbouring shards computes the sums of the largest whole subtrees among them, and anybody can finish the
// tree from those.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/dtype.h"

namespace butterfly::kernels {

inline constexpr size_t kShardsMax = 8;
// Whole subtrees that a run of neighbouring shards consists of, at most: 2 log2(kShardsMax) - 2.
inline constexpr size_t kSubtreesMax = 4;

// Columns of a unit for weights of this type: the block by which activations are quantised, at least 64.
size_t shard_unit(DType weights);

// The shards of a product over all `cols` columns of a layer.
class Shards {
 public:
  Shards(size_t unit, size_t cols);
  size_t count() const { return count_; }  // 1, 2, 4 or 8
  size_t cols() const { return cols_; }
  // First column of shard i; cols() for i = count(). No shard is empty unless there are no columns.
  size_t begin(size_t i) const;

 private:
  size_t unit_, cols_, count_;
};

// Shards [first, first + count): count is a power of two that divides `first`.
struct Subtree {
  size_t first, count;
  bool operator==(const Subtree&) const = default;
};

// The largest whole subtrees of shards [first, last), in order.
std::vector<Subtree> subtrees(size_t first, size_t last);

// How a product sums the columns that it has: one result per subtree, which is the tree over the sums of its
// shards. A plain value that jobs carry.
struct ShardCuts {
  size_t subtree_count = 1;
  std::array<uint8_t, kSubtreesMax> shards = {1};  // shards of each subtree
  std::array<size_t, kShardsMax + 1> ends = {};    // column behind each shard, subtree by subtree; then 0

  // One chain over all columns: what every product is that is not row-parallel.
  static ShardCuts none(size_t cols);
  // All columns of a layer with units of `unit` columns, or one chain for 0: one result.
  static ShardCuts of(size_t unit, size_t cols);
  static ShardCuts whole(const Shards& shards);
  // Shards [first, last) of the layer, whose first column is the product's first: subtrees(first, last).
  static ShardCuts share(const Shards& shards, size_t first, size_t last);

  size_t shard_count() const;
  size_t cols() const { return ends[shard_count() - 1]; }
};

// Goes through the shards of some cuts, in order: for (ShardWalk walk(cuts); walk; walk.next()).
class ShardWalk {
 public:
  explicit ShardWalk(const ShardCuts& cuts) : cuts_(cuts), end_(cuts.ends[0]) {}
  explicit operator bool() const { return subtree_ < cuts_.subtree_count; }
  void next() {
    begin_ = end_;
    if (++shard_ == shards()) {
      shard_ = 0;
      ++subtree_;
    }
    if (*this) end_ = cuts_.ends[++index_];
  }

  size_t begin() const { return begin_; }  // columns [begin, end)
  size_t end() const { return end_; }
  size_t subtree() const { return subtree_; }
  size_t shard() const { return shard_; }                   // within its subtree,
  size_t shards() const { return cuts_.shards[subtree_]; }  // which has so many
  bool last() const { return shard_ + 1 == shards(); }

 private:
  const ShardCuts& cuts_;
  size_t begin_ = 0, end_;
  size_t subtree_ = 0, shard_ = 0, index_ = 0;
};

// Two NaNs added give the one or the other, by an order of operands that compilers and machines choose. So
// the result of a tree is never an odd NaN, but this one.
inline constexpr uint32_t kTreeNan = 0x7fc00000u;

namespace ref {
// The tree over a power of two of sums, in place; the plain form of what every product ends with.
float shard_tree(std::span<float> sums);
}  // namespace ref

}  // namespace butterfly::kernels
