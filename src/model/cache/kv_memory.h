// The memory of a key/value cache: numbered pages of 32 positions. Who uses which page is decided elsewhere.
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

// Bytes of cache for one position.
size_t kv_bytes_per_position(const KvShape& shape);

// Not thread-safe: owned by whoever runs the steps. Memory is reserved at once, layer by layer, and used page
// by page: layers can come and go while others keep their contents.
class KvMemory {
 public:
  // Throws Error kUnsupported for a cache type that does not fit the head, kOutOfMemory when the memory
  // cannot be reserved.
  KvMemory(const KvShape& shape, size_t pages);

  // Only layers [first, first + count) stay, with their contents.
  void keep(size_t first, size_t count);
  // New ones, empty, in front of those that are here and behind them. Throws Error kOutOfMemory; then those
  // that were here still are.
  void extend(size_t before, size_t after);

  size_t pages() const { return pages_; }
  size_t bytes() const { return layers_.size() * layer_bytes_; }
  const KvShape& shape() const { return shape_; }

  // What a run of these rows sees, when sequence s has its positions in the pages page_ids[s]. Borrows both.
  graph::KvStep step(std::span<const std::span<const uint32_t>> page_ids, std::span<const graph::KvRow> rows);

 private:
  KvShape shape_;
  size_t pages_;
  size_t layer_bytes_ = 0;
  std::vector<Buffer> layers_;  // [pages, kv_heads, page]
  std::vector<std::byte*> bases_;
};

}  // namespace butterfly::model
