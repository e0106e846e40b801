// Sums of gradients that leave the trainer in buckets, each as soon as nothing changes it any more: while the
// backward pass of the last micro-batch still computes what lies before.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "tensor/pooled_array.h"
#include "train/optim/parameter_layout.h"
#include "train/trainer/gradient_tree.h"

namespace butterfly::train {

// The sum of the micro-batches below a node of the tree. Copies share its memory.
struct LeafSubtree {
  PairNode node;
  GradientSum sum;  // a flat array as the layout has it; of a coded one: what decoding gives
  std::shared_ptr<PooledArray<std::byte>> code = {};  // of GradientWire; null where gradients are exact
};

// Which parts, and who takes them. Immutable; `ready` is called on the thread that computes.
class LeafStream {
 public:
  // Of this bucket the subtree is whole: what copies of it hold there stays as it is. Every bucket of every
  // subtree comes once, in the order in which they become whole.
  using Ready = std::function<void(const LeafSubtree& subtree, size_t bucket)>;
  // BF_CHECKs that the buckets are all blocks of the layout, one behind the other.
  LeafStream(const ParameterLayout& layout, std::vector<Shard> buckets, Ready ready);

  const std::vector<Shard>& buckets() const { return buckets_; }
  // The buckets that hold values of a parameter.
  const std::vector<size_t>& of_parameter(size_t parameter) const { return of_parameter_[parameter]; }
  // Parameters with values in each bucket.
  const std::vector<size_t>& parameters_in() const { return parameters_in_; }
  void ready(const LeafSubtree& subtree, size_t bucket) const { ready_(subtree, bucket); }

 private:
  std::vector<Shard> buckets_;
  std::vector<std::vector<size_t>> of_parameter_;
  std::vector<size_t> parameters_in_;
  Ready ready_;
};

}  // namespace butterfly::train
