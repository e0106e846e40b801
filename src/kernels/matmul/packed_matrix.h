// Weight matrices laid out for the kernels: panels of 16 output rows, so that outputs stand in vector lanes.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/tiles/activation_rows.h"
#include "kernels/tiles/matmul_job.h"
#include "tensor/tensor.h"

namespace butterfly::kernels {

struct PackFormat;

// A [rows, cols] weight matrix, ready to multiply. Types with a fast path are copied into panels; the others
// keep their file layout and share its memory. Cheap to copy: copies share the panels. Once packed it is only
// read, by any number of threads.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  // Throws Error kUnsupported for an element type no product exists for. BF_CHECKs rank 2 and whole blocks.
  explicit PackedMatrix(const Tensor& weights);

  // Same, in pieces: allocates, then pack_panels() may run for disjoint ranges from several threads.
  static PackedMatrix uninitialised(const Tensor& weights);
  // What would be packed, without its memory: for who asks for sizes. Throws as above.
  static PackedMatrix sizes_only(DType dtype, size_t rows, size_t cols);
  void pack_panels(const Tensor& weights, size_t panel_begin, size_t panel_end);

  DType dtype() const { return dtype_; }
  size_t rows() const { return rows_; }
  size_t cols() const { return cols_; }
  size_t panels() const { return (rows_ + kPanelRows - 1) / kPanelRows; }
  ActKind act() const { return act_kind(dtype_); }
  bool repacked() const { return format_ != nullptr; }
  const PackFormat* format() const { return format_; }
  size_t panel_bytes() const { return panel_bytes_; }
  size_t bytes() const;  // memory one product reads
  const std::byte* panel(size_t index) const { return data_.data() + offset_ + index * panel_bytes_; }
  explicit operator bool() const { return cols_ != 0; }  // also of sizes_only()

 private:
  DType dtype_ = DType::kF32;
  size_t rows_ = 0;
  size_t cols_ = 0;
  size_t panel_bytes_ = 0;  // for types without a format: 16 rows as in the file
  size_t offset_ = 0;
  const PackFormat* format_ = nullptr;
  Buffer data_;
};

}  // namespace butterfly::kernels
