// The memory of a key/value cache: numbered pages of 32 positions. Who uses which page is decided elsewhere.
#pragma once
#include <cstdint>
#include <span>

#include "graph/kv_step.h"
#include "tensor/buffer.h"

namespace butterfly::model {

struct KvShape {
  size_t layers = 0;
  size_t kv_heads = 0;
  kernels::KvLayout layout;
};

// Bytes of cache for one position.
size_t kv_bytes_per_position(const KvShape& shape);

// Not thread-safe: owned by whoever runs the steps. Memory is reserved at once and used page by page.
class KvMemory {
 public:
  // Throws Error kUnsupported for a cache type that does not fit the head, kOutOfMemory when the memory
  // cannot be reserved.
  KvMemory(const KvShape& shape, size_t pages);

  size_t pages() const { return pages_; }
  size_t bytes() const { return memory_.size(); }
  const KvShape& shape() const { return shape_; }

  // What a run of these rows sees, when sequence s has its positions in the pages page_ids[s]. Borrows both.
  graph::KvStep step(std::span<const std::span<const uint32_t>> page_ids, std::span<const graph::KvRow> rows);

 private:
  KvShape shape_;
  size_t pages_;
  Buffer memory_;
};

}  // namespace butterfly::model
