// Puts buffers with known lifetimes into one block of memory. Knows no graph: see memory_plan.h for that.
//
// The problem is dynamic storage allocation: rectangles (life x bytes) that may slide along one axis. LOAD,
// the largest sum of live bytes, is below every placement; finding the best one is NP-complete. Here: several
// greedy orders, each buffer at the lowest place that is free for its whole life, and a short seeded search
// over orders when none of them comes near LOAD.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace butterfly::graph {

inline constexpr size_t kBufferAlign = 64;  // bytes; a cache line, and the widest vector

// One piece of memory and the steps [first, last] during which it is needed.
struct BufferLife {
  size_t bytes;
  uint32_t first;
  uint32_t last;
};

// Offsets (multiples of 64) such that buffers alive at the same step do not overlap; `bytes` is the block
// they need.
struct Placement {
  std::vector<size_t> offsets;
  size_t bytes = 0;
  std::string_view order = {};  // which rule found it, for reports
};

// LOAD: the largest sum of live bytes over the steps, sizes rounded up to 64. No placement can be smaller.
size_t live_bytes_max(std::span<const BufferLife> buffers);

struct PlaceOptions {
  // The first order that comes as near to LOAD is taken: a search takes tens of milliseconds, before the
  // first step of a new shape, and is not worth it for less.
  double good_enough = 1.005;
  size_t spare_bytes = 0;
  // Bound of the whole search in comparisons of two buffers, about 0.5 ns each. Counted, not timed: the same
  // buffers give the same placement on every machine. The first order is always finished.
  uint64_t work_max = 60'000'000;
  uint64_t seed = 0;
};
// A function of its arguments alone.
Placement place(std::span<const BufferLife> buffers, const PlaceOptions& options = {});

// Empty if the placement is good, else what is wrong. O(n log n): sweeps over time with the live set ordered
// by offset; comparing a new buffer with its two neighbours is enough because the live set is disjoint.
std::string placement_error(std::span<const BufferLife> buffers, const Placement& placement);

// The greedy orders by name, for tests and benches.
std::span<const std::string_view> placement_orders();
Placement place_by(std::string_view order, std::span<const BufferLife> buffers);

}  // namespace butterfly::graph
