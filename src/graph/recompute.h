// Gradient checkpointing: forgets values of the forward pass and computes them again when the backward pass
// needs them. Less memory for more arithmetic; the results are the same bits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace butterfly::graph {

// Nodes [begin, end) of the forward pass.
struct Segment {
  size_t begin;
  size_t end;
};

// The graph in which values of a segment that only its own nodes and the backward pass read are computed
// again, just before the backward pass first reads one of them; what later forward nodes read is kept. Values
// keep their ids; copies get ids behind them. Nodes from `forward_nodes` on are the backward pass. Segments
// stand in order and do not overlap. Only for operations whose forward function does the same each time it
// runs.
Graph recompute(const Graph& graph, size_t forward_nodes, const std::vector<Segment>& segments);

struct RecomputeOptions {
  double flops_max = 1.35;  // of the plain graph's
  size_t threads = 1;       // for scratch, as in plan_memory
};
struct RecomputeChoice {
  std::vector<Segment> segments;           // empty: nothing is gained
  size_t load_before = 0, load_after = 0;  // bytes
  uint64_t flops_before = 0, flops_after = 0;
};
// Cuts the forward pass where few bytes cross (between the blocks of a deep network) and takes the number of
// segments with the lowest LOAD within the bound on flops. The segment before the loss is never computed
// again: the backward pass begins with it.
RecomputeChoice choose_recompute(const Graph& graph, size_t forward_nodes,
                                 const RecomputeOptions& options = {});

}  // namespace butterfly::graph
