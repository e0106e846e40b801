// The packed layouts, one file and one row per element type. A type without a row is multiplied from its file
// layout.
#pragma once
#include <cstddef>
#include <span>

#include "kernels/quant/quant.h"
#include "kernels/tiles/matmul_job.h"
#include "tensor/dtype.h"

namespace butterfly::kernels {

// 16 rows in file layout, and the panel they become. Borrowed.
struct FullPanel {
  const std::byte* rows;
  size_t row_bytes;
  size_t cols;
  std::byte* to;
};

// A product by matrix tiles (AMX).
struct TileMatmul {
  size_t rows_min = 0;  // activation rows from which on unpacking a panel is paid for; 0: no tiles
  void (*matmul)(const MatmulJob& job) = nullptr;
  bool takes(size_t rows) const { return rows_min != 0 && rows >= rows_min; }
};

// All that is known of panels of one type. Functions keep no state: any number of threads may call them.
struct PackFormat {
  DType dtype;
  size_t (*panel_bytes)(size_t cols);
  // `valid` rows (1 to 16) of `row_bytes` each into one panel; missing rows become zeros.
  void (*pack)(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel);
  // The same bytes for 16 rows that all exist, by vectors, at the speed of memory.
  void (*pack_full)(const FullPanel& panel);
  // Block `block` of row `row` (0 to 15) of a panel as integers: the inverse of packing. Null for floats.
  void (*unpack)(const std::byte* panel, size_t cols, size_t row, size_t block, IntBlock* to);
  void (*matmul)(const MatmulJob& job);
  TileMatmul tiles = {};
};

// Every packed type: panels/<name>.cc defines <name>_panels.
#define BF_PACKED_TYPES(ROW) \
  ROW(f32)                   \
  ROW(f16)                   \
  ROW(bf16)                  \
  ROW(q8_0)                  \
  ROW(q4_0)                  \
  ROW(q4_1)                  \
  ROW(q5_0)                  \
  ROW(q5_1)                  \
  ROW(iq4_nl)                \
  ROW(mxfp4)                 \
  ROW(q1_0)                  \
  ROW(q4_k)                  \
  ROW(q5_k)                  \
  ROW(q6_k)

#define BF_DECLARE_PANELS(name) extern const PackFormat name##_panels;
BF_PACKED_TYPES(BF_DECLARE_PANELS)
#undef BF_DECLARE_PANELS

std::span<const PackFormat> pack_table();
const PackFormat* pack_format(DType dtype);  // null: no repacked path

// The plain loops (ref/matmul.cc).
namespace ref {
// From packed panels.
void matmul_panels(DType dtype, const MatmulJob& job);
// From rows in file layout (panel_bytes is 16 rows).
void matmul_rows(DType dtype, const MatmulJob& job);
}  // namespace ref

}  // namespace butterfly::kernels
