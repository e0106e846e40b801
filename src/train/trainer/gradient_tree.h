// Sums of the gradients of micro-batches by a tree that only their number shapes (base/pair_tree.h).
//
// Leaf i is micro-batch i. Who computed a leaf, and when, does not show in a bit of the sum: one tree may be
// finished here from leaves, or from sums of whole subtrees that others made from theirs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/pair_tree.h"
#include "base/thread_pool.h"
#include "tensor/tensor_pool.h"

namespace butterfly::train {

// Gradients of some micro-batches: floats, and the memory they lie in, which goes back when its last copy
// dies.
struct GradientSum {
  Buffer memory;
  float* values = nullptr;
};

// Buffers of one size and the sums between them. begin() once per step, then leaves or subtrees in any order
// from any thread. Holds at most about log2(leaves) buffers more than there are workers.
class GradientTree {
 public:
  // Keeps every buffer that it made for the next step.
  explicit GradientTree(size_t floats) : floats_(floats), pool_({.idle_bytes_max = UINT64_MAX}) {}

  // Of `leaves` those of `here` come; what an earlier step left is dropped. Nothing is summed up above
  // `level_max`.
  void begin(size_t leaves, const LeafRange& here, uint32_t level_max = PairTree::kLevelsMax);
  void begin(size_t leaves) { begin(leaves, {0, leaves}); }
  // Memory for a leaf, of any contents.
  GradientSum take();
  // Gives a finished leaf or subtree to the tree. The caller adds up what can be added by now, on its own
  // pool.
  void finish(PairNode node, GradientSum sum, ThreadPool& pool);
  void finish(size_t leaf, GradientSum sum, ThreadPool& pool) {
    finish(PairNode{0, static_cast<uint32_t>(leaf)}, std::move(sum), pool);
  }
  // What is still to be added to a leaf to make it the sum of the largest subtree of `here` around it: sums
  // on its way up, in their order, which leave the tree. For a caller who adds them part by part, and keeps
  // the sum. Nothing, where some of them have not come yet.
  struct Rest {
    PairNode top;
    std::vector<GradientSum> sums;
  };
  std::optional<Rest> take_rest(size_t leaf);
  // Whether everything of `here` has come.
  bool complete() const;
  // The sums of the largest whole subtrees of `here`, left to right, once it is complete.
  std::vector<std::pair<PairNode, GradientSum>> take_subtrees();
  // The sum, once all leaves are finished.
  GradientSum result();

  size_t floats() const { return floats_; }
  size_t buffers() const { return pool_.stats().misses; }  // made so far

 private:
  size_t floats_;
  TensorPool pool_;
  mutable std::mutex mutex_;  // of all below
  PairTree tree_{0};
  LeafRange here_;
  uint32_t level_max_ = PairTree::kLevelsMax;
  size_t finished_ = 0;                      // leaves below `done_`
  std::map<PairNode, GradientSum> waiting_;  // finished, the neighbour is not
  // By first leaf: nothing of `here_` is left to add to them.
  std::map<size_t, std::pair<PairNode, GradientSum>> done_;
};

}  // namespace butterfly::train
