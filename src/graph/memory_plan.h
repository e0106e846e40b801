// Where every value lives: offsets in one arena, found from lifetimes, so that a run allocates nothing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace butterfly::graph {

// One piece of memory and the steps [first, last] during which it is needed.
struct BufferLife {
  size_t bytes;
  uint32_t first;
  uint32_t last;
};

// Offsets (multiples of 64) such that buffers alive at the same step do not overlap; `bytes` is the arena
// they need.
struct Placement {
  std::vector<size_t> offsets;
  size_t bytes = 0;
};

// Largest sum of live bytes over the steps: no placement can be smaller.
size_t live_bytes_max(std::span<const BufferLife> buffers);

// Greedy: larger and longer-lived buffers first, each at the lowest place that is free for its whole life.
Placement place(std::span<const BufferLife> buffers);

// Empty if the placement is good, else what is wrong. O(n log n): sweeps over time with the live set ordered
// by offset.
std::string placement_error(std::span<const BufferLife> buffers, const Placement& placement);

struct MemoryPlan {
  std::vector<size_t> value_offsets;    // by value index
  std::vector<size_t> scratch_offsets;  // by node index
  std::vector<size_t> scratch_bytes;    // per thread, by node index
  size_t arena_bytes = 0;
  size_t live_bytes_max = 0;
};

// Lifetimes from the order of execution; outputs live to the end; ops that may work in place do.
MemoryPlan plan_memory(const Graph& graph, size_t threads);

}  // namespace butterfly::graph
