// Sums of the gradients of micro-batches by a tree that only their number shapes.
//
// Leaf i is micro-batch i. Two neighbours become one: (0 1) (2 3) ..., the last one moves up alone where
// their number is odd, and so on. Who computed a leaf, and when, does not show in a bit of the sum.
#pragma once
#include <cstddef>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "tensor/buffer.h"

namespace butterfly::train {

// Buffers of one size and the sums between them. begin() once per step, then leaves in any order from any
// thread. Holds at most about log2(leaves) buffers more than there are workers.
class GradientTree {
 public:
  explicit GradientTree(size_t floats) : floats_(floats) {}

  void begin(size_t leaves);
  // Memory for a leaf, of any contents.
  Buffer take();
  // Gives a finished leaf to the tree. The caller adds up what can be added by now, on its own pool.
  void finish(size_t leaf, Buffer gradients, ThreadPool& pool);
  // The sum, once all leaves are finished. Give it back with release().
  Buffer result();
  void release(Buffer buffer);

  size_t buffers() const { return made_; }  // so far

 private:
  size_t floats_;
  std::mutex mutex_;  // of all below
  size_t leaves_ = 0;
  size_t made_ = 0;
  std::vector<Buffer> free_;
  std::map<std::pair<size_t, size_t>, Buffer> waiting_;  // (level, index): finished, its neighbour is not
  Buffer root_;
};

}  // namespace butterfly::train
