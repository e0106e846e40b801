// What is asked and answered about caches when a chain takes the place of another: which pages, and what is
// left of them layer by layer.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/kv_step.h"
#include "runtime/engine/lineage.h"

namespace butterfly::runtime {

// Page `page` holds `count` positions of a text; this is the name of the last one. A page of a recurrent
// state holds one state (count 1), behind the position of this name.
struct PageClaim {
  uint32_t page = 0;
  uint32_t count = 0;
  Lineage lineage{};
  graph::PageKind kind = graph::PageKind::kFull;
};

// What stages have of the pages that were claimed. A number is how many positions from the page's first one
// on are there, with exactly the claimed text; 0 where that is in doubt. A layer that has no pages of the
// claim's kind lacks nothing of it, but for positions that its stage has no names of.
struct CacheReport {
  size_t claims = 0;
  std::vector<std::vector<uint8_t>> layers;  // [layer of the model][claim]
  // Rows on their way out of layer `behind` - 1, which a stage kept when it sent them.
  struct Rows {
    size_t behind = 0;
    std::vector<uint8_t> filled;  // [claim]
  };
  std::vector<Rows> rows;
};

}  // namespace butterfly::runtime
