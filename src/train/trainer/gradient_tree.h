// Sums of the gradients of micro-batches by a tree that only their number shapes.
//
// Leaf i is micro-batch i. Two neighbours become one: (0 1) (2 3) ..., the last one moves up alone where
// their number is odd, and so on. Who computed a leaf, and when, does not show in a bit of the sum.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "base/thread_pool.h"
#include "tensor/tensor_pool.h"

namespace butterfly::train {

// Buffers of one size and the sums between them. begin() once per step, then leaves in any order from any
// thread. Holds at most about log2(leaves) buffers more than there are workers.
class GradientTree {
 public:
  // Keeps every buffer that it made for the next step.
  explicit GradientTree(size_t floats) : floats_(floats), pool_({.idle_bytes_max = UINT64_MAX}) {}

  void begin(size_t leaves);
  // Memory for a leaf, of any contents. It goes back when its last copy dies.
  Buffer take() { return pool_.allocate(floats_ * sizeof(float)); }
  // Gives a finished leaf to the tree. The caller adds up what can be added by now, on its own pool.
  void finish(size_t leaf, Buffer gradients, ThreadPool& pool);
  // The sum, once all leaves are finished.
  Buffer result();

  size_t buffers() const { return pool_.stats().misses; }  // made so far

 private:
  size_t floats_;
  TensorPool pool_;
  std::mutex mutex_;  // of all below
  size_t leaves_ = 0;
  std::map<std::pair<size_t, size_t>, Buffer> waiting_;  // (level, index): finished, its neighbour is not
  Buffer root_;
};

}  // namespace butterfly::train
