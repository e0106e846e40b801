// The documents of a training batch: rows are windows of `length`, one behind the other, and a document of a
// window begins where positions begin again.
#pragma once
#include <cstddef>
#include <cstdint>

namespace butterfly::graph {

struct Document {
  size_t row, length;  // its first row in the batch
};

// Calls fn(document) for every document of the window that begins at `row`. `positions` may be null: one
// document.
template <typename F>
void each_document(size_t length, const int32_t* positions, size_t row, F&& fn) {
  size_t begin = 0;
  for (size_t i = 1; i <= length; ++i) {
    if (i < length && (positions == nullptr || positions[row + i] != 0)) continue;
    fn(Document{row + begin, i - begin});
    begin = i;
  }
}

}  // namespace butterfly::graph
