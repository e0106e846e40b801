// The coordinator's question as the planner takes it: nodes and links in numbers.
#pragma once
#include <vector>

#include "cluster/member/placement.h"
#include "cluster/node/cluster_spec.h"
#include "tensor/dtype.h"

namespace butterfly::runtime {

// Nodes as the planner gets them: the coordinator's own last, then, for strategies that choose the order, a
// node without memory from which the requests come, the front. Its links say where a chain may begin and end.
struct NodeTable {
  std::vector<cluster::PlanNode> nodes;
  cluster::ClusterSpec spec;
  size_t self = 0;  // the coordinator's own node
};
inline constexpr const char* kFront = "the front";  // no name of a node has a blank
inline constexpr double kMemoryShare = 0.95;        // of what is free: allocators and stacks want some too

struct NodeTableOptions {
  DType type = DType::kF32;       // whose kernels decide how fast a node is
  uint64_t activation_bytes = 0;  // of every node, beside weights and cache
  double row_bytes = 0;           // of what a token sends over a link
  bool with_front = false;
  // What follows the coordinator's stage is for the planner to rule out (PlanOptions::last_node): members of
  // a group send both ways. Else no link leads on from there.
  bool with_groups = false;
  cluster::LinkSpec unknown_link = {};  // of pairs that nobody has measured
};
// kNotFound when the coordinator's own node is not among them.
Result<NodeTable> read_nodes(const cluster::PlanQuestion& asked, const NodeTableOptions& options);

}  // namespace butterfly::runtime
