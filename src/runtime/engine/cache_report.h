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
  bool in_use = true;  // by a text that runs; else it is kept for texts to come, and not worth waiting for
};

// What became of pages that other nodes could send when plans changed (see move_choice.h).
struct PageMove {
  bool offered = false;     // there was something that could be sent,
  bool sent = false;        // and it was asked for,
  uint64_t bytes = 0;       // so many came,
  uint64_t row_layers = 0;  // positions times the layers that got them
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
  // What each stage could get from nodes that had its layers before: of layers [from, to) of its own.
  struct Offer {
    size_t begin = 0, end = 0;  // its layers
    size_t from = 0, to = 0;
    uint64_t bytes = 0;  // 0: nothing
    double seconds = 0;  // that it would take
  };
  std::vector<Offer> offers = {};  // first stage first
  PageMove move = {};
};

}  // namespace butterfly::runtime
