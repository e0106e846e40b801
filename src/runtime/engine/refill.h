// What has to be computed again when another chain takes over: which rows, through which layers.
#pragma once
#include <vector>

#include "runtime/engine/cache_report.h"
#include "runtime/engine/step.h"

namespace butterfly::runtime {

// Of one page: positions [first, count) pass these layers, one span after the other.
struct PageRefill {
  uint32_t first = 0, count = 0;
  std::vector<LayerSpan> spans;  // in order; they do not overlap

  bool empty() const { return spans.empty(); }
};

// What page number `claim` of the report lacks, of `count` positions. Rows enter a missing layer from the
// nearest place in front of it where they were kept, else from the tokens.
PageRefill refill_of(const CacheReport& report, size_t claim, uint32_t count);

}  // namespace butterfly::runtime
