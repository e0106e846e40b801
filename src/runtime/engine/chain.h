// What the engine drives: the layers of a model, on this machine or on others.
#pragma once
#include <cstddef>
#include <optional>
#include <span>

#include "base/clock.h"
#include "base/function_ref.h"
#include "runtime/engine/cache_report.h"
#include "runtime/engine/step.h"

namespace butterfly::runtime {

struct ChainInfo {
  size_t vocab = 0;
  size_t dim = 0;             // of rows behind the last norm
  size_t row_cols = 0;        // of rows between stages
  size_t layers = 0;          // of the model
  size_t context = 0;         // positions the model can have in one text
  size_t pages = 0;           // of the key/value cache: the fewest of all stages
  size_t page_positions = 0;  // per page
  // Where some layers have pages of their own (graph/kv_step.h): how many; 0: none have.
  size_t window_pages = 0;
  size_t window = 0;        // positions of a text that those hold
  size_t state_pages = 0;   // recurrent layers: states that cannot go back
  size_t sequences = 0;     // texts in the cache at once
  size_t rows_max = 0;      // per step
  size_t steps_max = 1;     // worth having under way at once: as many as there are stages in the chain
  bool pools_last = false;  // embeddings are the last token's, not the mean
  bool predicts = false;    // draft() guesses how texts go on
};

// The first block of so many positions that the row at this position of a text sees in a window.
inline size_t first_block_in_window(size_t position, size_t window, size_t page_positions) {
  return position + 1 > window ? (position + 1 - window) / page_positions : 0;
}

// Pages of a chain's cache as bytes, to be kept elsewhere: through all layers, so only where all are here. By
// the engine's thread, between steps; and to read by another one when that has ended.
class CachePages {
 public:
  virtual ~CachePages() = default;
  virtual size_t size(graph::PageKind kind) const = 0;  // 0: the chain has no such pages
  virtual void read(graph::PageKind kind, uint32_t page, std::span<std::byte> into) const = 0;
  // `positions`: of the text up to the page's end.
  virtual void write(graph::PageKind kind, uint32_t page, size_t positions,
                     std::span<const std::byte> from) = 0;
};

// All layers of a model, as one or more stages, each on a node: tokens in at the front, logits out at the
// end. Rows travel from stage to stage without passing the engine.
//
// Steps run in the order of submit(), whole or not at all. One thread calls everything but close(). After an
// error of receive() nothing is known of the cache: reset(), then begin every text again.
class Chain {
 public:
  virtual ~Chain() = default;
  virtual const ChainInfo& info() const = 0;

  // Begins a step; may return before anything is computed. At most info().steps_max are under way.
  virtual Status submit(const StepRequest& request) = 0;

  // The result of the oldest step under way. Waits at most `timeout`, then the status is kTimeout. The other
  // statuses: kPeerLost, or what the chain found wrong with the request.
  virtual StepResult receive(Duration timeout) = 0;

  // The result of the oldest step under way is not wanted any more: receive() still says that it has ended,
  // but need not compute it to its end. What it said of the cache holds.
  virtual void skip() {}

  // Guesses by the model itself, where info().predicts: for each ask so many tokens or fewer. While no step
  // is under way. After an error nothing is known of the cache, as after one of receive().
  virtual Result<std::vector<std::vector<int32_t>>> draft(const DraftRequest&) {
    return Status(Errc::kUnsupported, "this chain does not predict");
  }

  // Drops steps under way and the cache's contents; results of older epochs do not come any more.
  virtual Status reset(uint64_t epoch, Duration timeout) = 0;

  // The same, but what the caches hold stays: says what is left of the pages that are claimed. Pages are to
  // be placed anew. Nothing: the chain does not know, and all is as after reset().
  virtual Result<std::optional<CacheReport>> resume(uint64_t epoch, std::span<const PageClaim>,
                                                    Duration timeout) {
    if (Status status = reset(epoch, timeout); !status) return status;
    return std::optional<CacheReport>();
  }

  // Calls fn(i) once for each i below `count`: by several threads where the chain has some that are idle
  // between receive() and submit(), else one after the other. `fn` must not throw. The engine samples with
  // it, so a chain around another one passes it on.
  virtual void for_each(size_t count, FunctionRef<void(size_t)> fn) = 0;

  // Null: the cache is elsewhere, or in several places. Borrowed.
  virtual CachePages* cache_pages() { return nullptr; }

  // Wakes a receive(), which then returns kCancelled. From any thread; safe to call twice.
  virtual void close() = 0;
};

// Chain::for_each() of those that have no threads.
inline void for_each_in_turn(size_t count, FunctionRef<void(size_t)> fn) {
  for (size_t i = 0; i < count; ++i) fn(i);
}

}  // namespace butterfly::runtime
