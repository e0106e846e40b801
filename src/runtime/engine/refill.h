// What has to be computed again when another chain takes over: which rows, through which layers.
#pragma once
#include <optional>
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

// A text some of whose layers have a recurrent state. Such a state cannot go back, and a row that passes it a
// second time must come behind the same ones as the first time: so all layers go on from one position, and
// rows that a layer lacks pass it from the text's beginning on, all of them.
struct TextClaims {
  std::vector<size_t> pages;  // the claim of each block
  // Behind which positions there should be a state, and its claim: the last certain one, and the last that
  // ends a block. Front stages may have passed the first already, with a step that was lost behind them.
  struct State {
    size_t position = 0;
    size_t claim = 0;
  };
  std::optional<State> last, block_end;
};
struct TextRefill {
  size_t position = 0;           // all goes on from here
  std::vector<LayerSpan> spans;  // that its positions before pass, one span after the other
};
TextRefill refill_of(const CacheReport& report, const TextClaims& text, size_t page_positions);

}  // namespace butterfly::runtime
