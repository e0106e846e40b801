#include "train/trainer/gradient_tree.h"

#include "base/check.h"
#include "kernels/optim/optimizer_update.h"

namespace butterfly::train {

void GradientTree::begin(size_t leaves) {
  const std::lock_guard lock(mutex_);
  BF_CHECK(waiting_.empty() && !root_) << "the step before is not over";
  leaves_ = leaves;
}

void GradientTree::finish(size_t leaf, Buffer gradients, ThreadPool& pool) {
  size_t index = leaf, level = 0, count = leaves_;
  for (; count > 1; index /= 2, ++level, count = (count + 1) / 2) {
    const size_t neighbour = index ^ 1;
    if (neighbour >= count) continue;  // the last one of an odd number
    Buffer other;
    {
      const std::lock_guard lock(mutex_);
      const auto it = waiting_.find({level, neighbour});
      if (it == waiting_.end()) {
        waiting_.emplace(std::pair{level, index}, std::move(gradients));
        return;
      }
      other = std::move(it->second);
      waiting_.erase(it);
    }
    // a + b = b + a in every bit, so it does not matter which of the two came first.
    kernels::add_to(reinterpret_cast<const float*>(other.data()), reinterpret_cast<float*>(gradients.data()),
                    floats_, pool);
  }
  const std::lock_guard lock(mutex_);
  root_ = std::move(gradients);
}

Buffer GradientTree::result() {
  const std::lock_guard lock(mutex_);
  BF_CHECK(root_ && waiting_.empty()) << "not all leaves are finished";
  return std::exchange(root_, {});
}

}  // namespace butterfly::train
