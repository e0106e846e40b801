// The packed layouts, one row per element type. A type without a row is multiplied from its file layout.
#pragma once
#include <cstddef>
#include <span>

#include "tensor/dtype.h"

namespace butterfly::kernels {

// What a matmul works on: m activation rows times panels [panel_begin, panel_end).
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
  size_t y_stride;  // floats
};

struct FullPanel;

struct PackFormat {
  DType dtype;
  size_t (*panel_bytes)(size_t cols);
  // `valid` rows (1 to 16) of `row_bytes` each into one panel; missing rows become zeros.
  void (*pack)(const std::byte* rows, size_t row_bytes, size_t valid, size_t cols, std::byte* panel);
  // The same for 16 rows, by vectors.
  void (*pack_full)(const FullPanel& panel);
  void (*matmul)(const MatmulJob& job);
};

std::span<const PackFormat> pack_table();
const PackFormat* pack_format(DType dtype);  // null: no repacked path

// Implementations behind the rows.
void matmul_f32_panels(const MatmulJob& job);
void matmul_f16_panels(const MatmulJob& job);
void matmul_bf16_panels(const MatmulJob& job);
void matmul_q8_0_panels(const MatmulJob& job);
void matmul_q4_0_panels(const MatmulJob& job);
void matmul_q4_1_panels(const MatmulJob& job);
void matmul_q5_0_panels(const MatmulJob& job);
void matmul_q5_1_panels(const MatmulJob& job);
void matmul_iq4_nl_panels(const MatmulJob& job);
void matmul_q4_k_panels(const MatmulJob& job);
void matmul_q5_k_panels(const MatmulJob& job);
void matmul_q6_k_panels(const MatmulJob& job);

// For types without a row: panels are 16 rows in file layout.
void matmul_blocks(DType dtype, const MatmulJob& job);

}  // namespace butterfly::kernels
