// The memory of a cache: numbered pages of 32 positions, or of recurrent states. Who uses which page is
// decided elsewhere.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "graph/kv_step.h"
#include "model/cache/cache_room.h"
#include "tensor/buffer.h"

namespace butterfly::model {

// What the layers of a model keep.
struct CacheShape {
  std::vector<LayerState> layers;  // all of them
  DType kv_type = DType::kF16;

  friend bool operator==(const CacheShape&, const CacheShape&) = default;
};

// Which pages the sequences of a step have: by kind, by sequence.
using PageTables = std::array<std::span<const std::span<const uint32_t>>, graph::kPageKinds>;

// Not thread-safe: owned by whoever runs the steps. Memory is reserved at once, layer by layer, and used page
// by page: layers can come and go while others keep their contents.
class KvMemory {
 public:
  // Has no layer yet. Throws Error kUnsupported for a cache type that does not fit a layer, kOutOfMemory for
  // sizes that nobody has.
  KvMemory(CacheShape shape, const CacheRoom& room);

  // Of the layers that are here only those in [begin, end) stay, with their contents.
  void keep(size_t begin, size_t end);
  // Layers [begin, end) are here: new ones, empty, in front of those that are here and behind them. Throws
  // Error kOutOfMemory; then those that were here still are.
  void extend(size_t begin, size_t end);

  size_t begin() const { return begin_; }
  size_t end() const { return begin_ + layers_.size(); }
  uint64_t bytes() const { return bytes_; }
  const CacheRoom& room() const { return room_; }
  const CacheShape& shape() const { return shape_; }

  // A page of a kind through all layers that are here, as bytes: how many, and a copy of them out and in.
  size_t page_size(PageKind kind) const;
  void read_page(PageKind kind, uint32_t page, std::span<std::byte> into) const;
  void write_page(PageKind kind, uint32_t page, std::span<const std::byte> from);

  // The same of one layer that is here, numbered as in the model: its memory. Empty where the layer keeps no
  // pages of this kind that are its own.
  std::span<std::byte> layer_page(size_t layer, PageKind kind, uint32_t page);
  std::span<const std::byte> layer_page(size_t layer, PageKind kind, uint32_t page) const;

  // What a run of these rows sees. Borrows all of it. BF_CHECKs that every row has its pages.
  graph::KvStep step(const PageTables& page_ids, std::span<const graph::KvRow> rows,
                     std::span<const graph::StateRun> state_runs = {});

 private:
  struct Layer {
    Buffer pages;
    Buffer guesses;
  };
  Layer make_layer(size_t index) const;
  void count();
  bool has_pages(size_t layer, PageKind kind) const;

  CacheShape shape_;
  CacheRoom room_;
  size_t begin_ = 0;
  uint64_t bytes_ = 0;
  std::vector<Layer> layers_;
  std::vector<graph::KvLayer> views_;
};

}  // namespace butterfly::model
