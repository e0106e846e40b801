// How rows look between stages: exact, or smaller and lossy where somebody asks for it by name.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "tensor/dtype.h"

namespace butterfly::runtime {

// One row of the table. A row's bytes depend on its own values alone, so even lossy rows do not depend on the
// batch they travel in.
struct RowFormat {
  std::string_view name;
  std::string_view words;  // what it costs
  DType dtype;

  bool is_exact() const { return dtype == DType::kF32; }
  size_t row_bytes(size_t dim) const;
  // Why rows of `dim` values cannot travel this way, in words; empty: they can.
  std::string why_not(size_t dim) const;
  // `rows` are whole rows of `dim` values. Formats that are not exact keep finite values finite.
  void encode(std::span<const float> rows, std::span<std::byte> to) const;
  void decode(std::span<const std::byte> from, std::span<float> rows) const;
};

std::span<const RowFormat> row_formats();  // the default first
// Throws Error kInvalidArgument naming those that exist.
const RowFormat& find_row_format(std::string_view name);

}  // namespace butterfly::runtime
