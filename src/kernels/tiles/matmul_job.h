// The unit of work of every product with packed weights: some activation rows times some panels.
#pragma once
#include <cstddef>

#include "kernels/tiles/shards.h"

namespace butterfly::kernels {

inline constexpr size_t kPanelRows = 16;

// m activation rows times panels [panel_begin, panel_end). Borrows all it points at; one thread runs it.
struct MatmulJob {
  const std::byte* panels;  // first panel of the matrix
  size_t panel_bytes;
  size_t panel_begin;
  size_t panel_end;
  size_t rows;  // output rows of the matrix; the last panel may be padded
  size_t cols;
  const std::byte* acts;  // in the form of act_kind()
  size_t act_stride;      // bytes
  size_t m;
  float* y;
  size_t y_stride;        // floats from one activation row to the next
  ShardCuts cuts;         // of all columns
  size_t subtree_stride;  // floats from the result of one subtree to the next
};

}  // namespace butterfly::kernels
