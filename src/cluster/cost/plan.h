// Who runs what: contiguous stages of a chain of pieces, each on one node or shared by a group.
#pragma once
#include <cstddef>
#include <vector>

namespace butterfly::cluster {

// Pieces [begin, end). One node runs all of it; several are a tensor-parallel group, where member i computes
// the share shares[i] of every piece's outputs.
struct Stage {
  std::vector<size_t> nodes;
  size_t begin = 0;
  size_t end = 0;
  std::vector<double> shares;  // one per node, sum 1
  size_t size() const { return end - begin; }
  friend bool operator==(const Stage&, const Stage&) = default;
};

struct Plan {
  std::vector<Stage> stages;
  friend bool operator==(const Plan&, const Plan&) = default;
};

// The last piece goes to `node`, which has none yet, unless it is the first of those that have the end.
inline void end_at(Plan& plan, size_t node) {
  Stage& last = plan.stages.back();
  if (last.nodes[0] == node) return;
  const size_t end = last.end--;
  if (last.size() == 0) plan.stages.pop_back();
  plan.stages.push_back({{node}, end - 1, end, {1.0}});
}

}  // namespace butterfly::cluster
