// Where every value lives: offsets in one arena, found from lifetimes, so that a run allocates nothing.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/placement.h"

namespace butterfly::graph {

// The part of the arena that one class of memory has. Regions stand one behind the other. Only what lasts is
// in the region of its class: weights, optimizer state and communication buckets (from the first step to the
// last), and gradients that are outputs. A gradient that is used up at once shares the region of the
// activations. Bound values (Graph::bind) live elsewhere and are only counted.
struct MemoryRegion {
  size_t offset = 0;
  size_t bytes = 0;
  size_t live_bytes_max = 0;    // LOAD of the region
  size_t bound_bytes = 0;       // of this class, outside the arena
  std::string_view order = {};  // the rule that placed it
};

// A buffer of the plan, for reports and checks: several values when ops work in place.
struct PlannedBuffer {
  BufferLife life;
  size_t offset;  // in the arena
  MemoryClass region;
  int32_t value;  // the first value it holds; -1: scratch
  int32_t node;   // that scratch is for; -1: a value
};

struct MemoryPlan {
  std::vector<size_t> value_offsets;    // by value index
  std::vector<size_t> scratch_offsets;  // by node index
  std::vector<size_t> scratch_bytes;    // per thread, by node index
  size_t arena_bytes = 0;
  size_t live_bytes_max = 0;  // sum over the regions: what no plan with these regions can be below
  std::array<MemoryRegion, kMemoryClasses> regions;  // by class
  std::vector<PlannedBuffer> buffers;

  const MemoryRegion& region(MemoryClass memory) const { return regions[static_cast<size_t>(memory)]; }
};

// Lifetimes from the order of execution; outputs live to the end; ops that may work in place do. The plan is
// checked before it is returned.
MemoryPlan plan_memory(const Graph& graph, size_t threads);

}  // namespace butterfly::graph
