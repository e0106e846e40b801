// What one step of training reads: some items of a data set, side by side.
#pragma once
#include <cstdint>
#include <span>

#include "tensor/pooled_array.h"

namespace butterfly::train {

// How much one item has of each kind. A text has ids and one target per id, an image values and one target.
struct ItemShape {
  size_t ids = 0;
  size_t values = 0;
  size_t targets = 0;
  friend bool operator==(const ItemShape&, const ItemShape&) = default;
};

// Where one item goes; spans have the sizes of the shape.
struct ItemView {
  std::span<int32_t> ids;
  std::span<float> values;
  std::span<int32_t> targets;
};

// A target that does not count in the loss.
inline constexpr int32_t kIgnoredTarget = -1;

// Several documents may share an item: the first id of each is written so, and comes out again as it was.
constexpr int32_t document_start(int32_t id) { return ~id; }
constexpr bool is_document_start(int32_t written) { return written < 0; }
constexpr int32_t id_of(int32_t written) { return written < 0 ? ~written : written; }

// Memory is kept when a batch is filled again, and goes back to the process's pool with the batch.
struct Batch {
  uint64_t index = 0;  // since the beginning of training
  uint64_t epoch = 0;
  size_t rows = 0;
  ItemShape shape;
  PooledArray<int32_t> ids;      // [rows, shape.ids]; see document_start()
  PooledArray<float> values;     // [rows, shape.values]
  PooledArray<int32_t> targets;  // [rows, shape.targets]

  void resize(size_t row_count, const ItemShape& item) {
    rows = row_count;
    shape = item;
    ids.resize(rows * item.ids);
    values.resize(rows * item.values);
    targets.resize(rows * item.targets);
  }
  ItemView row(size_t i) {
    return {std::span(ids).subspan(i * shape.ids, shape.ids),
            std::span(values).subspan(i * shape.values, shape.values),
            std::span(targets).subspan(i * shape.targets, shape.targets)};
  }
};

}  // namespace butterfly::train
