// The packed layouts, one row per element type. A type without a row is multiplied from its file layout.
#pragma once
#include <cstddef>
#include <span>

#include "kernels/tiles/matmul_job.h"
#include "tensor/dtype.h"

namespace butterfly::kernels {

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

// The plain loops (ref/matmul.cc).
namespace ref {
// From packed panels.
void matmul_panels(DType dtype, const MatmulJob& job);
// From rows in file layout (panel_bytes is 16 rows).
void matmul_rows(DType dtype, const MatmulJob& job);
}  // namespace ref

}  // namespace butterfly::kernels
