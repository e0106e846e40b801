#include "kernels/matmul/packed_matrix.h"

#include <algorithm>

#include "base/check.h"
#include "base/checked.h"
#include "base/error.h"
#include "kernels/panels/pack_table.h"
#include "tensor/memory.h"

namespace butterfly::kernels {
namespace {

bool can_multiply(DType dtype) {
  return dtype_info(dtype).quantised() || dtype == DType::kF32 || dtype == DType::kF16 ||
         dtype == DType::kBF16;
}

}  // namespace

PackedMatrix::PackedMatrix(const Tensor& weights) {
  *this = uninitialised(weights);
  pack_panels(weights, 0, panels());
}

PackedMatrix PackedMatrix::sizes_only(DType dtype, size_t rows, size_t cols) {
  if (!can_multiply(dtype))
    fail(Errc::kUnsupported, "[matmul] weights of type {} cannot be multiplied", dtype_name(dtype));
  PackedMatrix packed;
  packed.dtype_ = dtype;
  packed.rows_ = rows;
  packed.cols_ = cols;
  packed.format_ = pack_format(dtype);
  const DTypeInfo& info = dtype_info(dtype);
  // Panels start at whole cache lines.
  packed.panel_bytes_ = packed.format_ != nullptr ? round_up(packed.format_->panel_bytes(cols), 64)
                        : rows == 0               ? 0
                                    : kPanelRows * (cols / info.block_values * info.block_bytes);
  return packed;
}

PackedMatrix PackedMatrix::uninitialised(const Tensor& weights) {
  BF_CHECK(weights.rank() == 2 && weights.contiguous()) << "weights " << weights.shape().to_string();
  PackedMatrix packed =
      sizes_only(weights.dtype(), static_cast<size_t>(weights.size(0)), static_cast<size_t>(weights.size(1)));
  if (packed.format_ != nullptr) {
    packed.data_ = allocate_lasting(packed.panels() * packed.panel_bytes_);
  } else {
    packed.data_ = weights.buffer();
    packed.offset_ = static_cast<size_t>(weights.raw() - weights.buffer().data());
  }
  return packed;
}

void PackedMatrix::pack_panels(const Tensor& weights, size_t panel_begin, size_t panel_end) {
  if (format_ == nullptr) return;
  // Panels whose pages are brought in together: cleared pages are still in the second-level cache when they
  // are filled.
  constexpr size_t kTogether = size_t{512} << 10;
  const size_t step = std::max<size_t>(1, kTogether / std::max<size_t>(1, panel_bytes_));
  const size_t row_bytes = rows_ == 0 ? 0 : weights.bytes() / rows_;
  for (size_t i = panel_begin; i < panel_end; ++i) {
    const size_t first = i * kPanelRows;
    const std::byte* from = weights.raw() + first * row_bytes;
    std::byte* to = data_.data() + i * panel_bytes_;
    if ((i - panel_begin) % step == 0) {
      const size_t count = std::min(step, panel_end - i);
      bring_in_for_reading(from, std::min(count * kPanelRows, rows_ - first) * row_bytes);
      bring_in_for_writing(to, count * panel_bytes_);
    }
    if (first + kPanelRows <= rows_) {
      format_->pack_full({from, row_bytes, cols_, to});
    } else {
      format_->pack(from, row_bytes, rows_ - first, cols_, to);
    }
  }
}

size_t PackedMatrix::bytes() const {
  return format_ != nullptr ? panels() * panel_bytes_ : panel_bytes_ / kPanelRows * rows_;
}

}  // namespace butterfly::kernels
