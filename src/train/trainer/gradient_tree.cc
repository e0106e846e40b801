#include "train/trainer/gradient_tree.h"

#include "base/check.h"
#include "kernels/optim/optimizer_update.h"

namespace butterfly::train {

void GradientTree::begin(size_t leaves, const LeafRange& here, uint32_t level_max) {
  const std::lock_guard lock(mutex_);
  BF_CHECK(here.begin <= here.end && here.end <= leaves) << "leaves " << here.begin << " to " << here.end;
  waiting_.clear();
  done_.clear();
  finished_ = 0;
  tree_ = PairTree(leaves);
  here_ = here;
  level_max_ = level_max;
}

GradientSum GradientTree::take() {
  Buffer memory = pool_.allocate(floats_ * sizeof(float));
  auto* values = reinterpret_cast<float*>(memory.data());
  return {std::move(memory), values};
}

void GradientTree::finish(PairNode node, GradientSum sum, ThreadPool& pool) {
  while (node.level < level_max_ && !tree_.is_root(node) &&
         here_.contains(tree_.range(PairTree::parent(node)))) {
    const PairNode neighbour = PairTree::neighbour(node);
    if (tree_.exists(neighbour)) {  // else the last one of an odd number
      GradientSum other;
      {
        const std::lock_guard lock(mutex_);
        const auto it = waiting_.find(neighbour);
        if (it == waiting_.end()) {
          waiting_.emplace(node, std::move(sum));
          return;
        }
        other = std::move(it->second);
        waiting_.erase(it);
      }
      // a + b = b + a in every bit, so it does not matter which of the two came first.
      kernels::add_to(other.values, sum.values, floats_, pool);
    }
    node = PairTree::parent(node);
  }
  const std::lock_guard lock(mutex_);
  const LeafRange range = tree_.range(node);
  BF_CHECK(done_.emplace(range.begin, std::pair{node, std::move(sum)}).second) << "a subtree came twice";
  finished_ += range.size();
}

std::optional<GradientTree::Rest> GradientTree::take_rest(size_t leaf) {
  const std::lock_guard lock(mutex_);
  Rest rest{.top = {0, static_cast<uint32_t>(leaf)}, .sums = {}};
  std::vector<PairNode> neighbours;
  for (; rest.top.level < level_max_ && !tree_.is_root(rest.top) &&
         here_.contains(tree_.range(PairTree::parent(rest.top)));
       rest.top = PairTree::parent(rest.top)) {
    const PairNode neighbour = PairTree::neighbour(rest.top);
    if (!tree_.exists(neighbour)) continue;
    if (!waiting_.contains(neighbour)) return std::nullopt;
    neighbours.push_back(neighbour);
  }
  for (const PairNode neighbour : neighbours)
    rest.sums.push_back(std::move(waiting_.extract(neighbour).mapped()));
  return rest;
}

bool GradientTree::complete() const {
  const std::lock_guard lock(mutex_);
  return finished_ == here_.size();
}

std::vector<std::pair<PairNode, GradientSum>> GradientTree::take_subtrees() {
  const std::lock_guard lock(mutex_);
  BF_CHECK(finished_ == here_.size() && waiting_.empty()) << "not all leaves are finished";
  std::vector<std::pair<PairNode, GradientSum>> sums;
  for (auto& [first, done] : done_) sums.push_back(std::move(done));
  done_.clear();
  finished_ = 0;
  here_ = {};
  return sums;
}

GradientSum GradientTree::result() {
  auto sums = take_subtrees();
  BF_CHECK(sums.size() == 1 && tree_.is_root(sums[0].first)) << sums.size() << " sums are no whole";
  return std::move(sums[0].second);
}

}  // namespace butterfly::train
