// The cache of one caller that runs batch after batch: pages of 32 positions from one bounded pool, lent to
// sequences; and one recurrent state for each sequence, where layers have such.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "model/cache/kv_memory.h"

namespace butterfly::model {

// Windows are not cut: a sequence may go back to any position. Recurrent states cannot: with such layers a
// sequence goes on where it stands, or begins again.
//
// Not thread-safe: owned by whoever runs the steps.
class KvCache {
 public:
  // Room for `positions` in all, rounded up to pages, over at most `sequences` sequences. Throws Error
  // kUnsupported for a cache type that does not fit the head, kOutOfMemory when the memory cannot be
  // reserved.
  KvCache(const CacheShape& shape, size_t positions, size_t sequences);

  // Pages so that the sequence can hold `positions`. False if too few are free; then nothing changes.
  [[nodiscard]] bool reserve(size_t sequence, size_t positions);
  // Keeps the first `positions` and gives whole pages behind them back. truncate(s, 0) empties.
  void truncate(size_t sequence, size_t positions);

  size_t sequences() const { return pages_.size(); }
  size_t free_positions() const { return free_.size() * kernels::kKvPage; }
  size_t bytes() const { return memory_.bytes(); }

  // What a run of these rows sees. Borrowed until the next call of any other function. With recurrent layers:
  // throws Error kInvalidArgument for rows of one sequence that do not stand together, and for positions that
  // do not go on where it stands.
  graph::KvStep step(std::span<const graph::KvRow> rows);

 private:
  void run_states(std::span<const graph::KvRow> rows);

  KvMemory memory_;
  std::vector<uint32_t> free_;                // page numbers, last one next
  std::vector<std::vector<uint32_t>> pages_;  // by sequence
  std::vector<std::span<const uint32_t>> page_views_;
  // Recurrent layers: sequence s has state page s, for all its blocks.
  std::vector<std::vector<uint32_t>> state_pages_;
  std::vector<std::span<const uint32_t>> state_views_;
  std::vector<size_t> seen_;  // positions in the state
  std::vector<graph::StateRun> runs_;
};

}  // namespace butterfly::model
