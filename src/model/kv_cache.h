// The key/value cache: pages of 32 positions from one bounded pool, lent to sequences.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "graph/kv_step.h"
#include "tensor/buffer.h"

namespace butterfly::model {

struct KvShape {
  size_t layers = 0;
  size_t kv_heads = 0;
  kernels::KvLayout layout;
};

// Not thread-safe: owned by whoever runs the steps. Memory is reserved at once and used page by page.
class KvCache {
 public:
  // Room for `positions` in all, rounded up to pages, over at most `sequences` sequences. Throws Error
  // kUnsupported for a cache type that does not fit the head, kOutOfMemory when the memory cannot be
  // reserved.
  KvCache(const KvShape& shape, size_t positions, size_t sequences);

  // Pages so that the sequence can hold `positions`. False if too few are free; then nothing changes.
  [[nodiscard]] bool reserve(size_t sequence, size_t positions);
  // Keeps the first `positions` and gives whole pages behind them back. truncate(s, 0) empties.
  void truncate(size_t sequence, size_t positions);

  size_t sequences() const { return pages_.size(); }
  size_t free_positions() const { return free_.size() * kernels::kKvPage; }
  size_t bytes() const { return memory_.size(); }
  const KvShape& shape() const { return shape_; }

  // What a run of these rows sees. Borrowed until the next call of any other function.
  graph::KvStep step(std::span<const graph::KvRow> rows);

 private:
  KvShape shape_;
  Buffer memory_;
  std::vector<uint32_t> free_;                // page numbers, last one next
  std::vector<std::vector<uint32_t>> pages_;  // by sequence
  std::vector<std::span<const uint32_t>> page_views_;
};

// Bytes of cache for one position.
size_t kv_bytes_per_position(const KvShape& shape);

}  // namespace butterfly::model
