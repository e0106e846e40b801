// Rows of a table by index, as floats: the embedding lookup.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace butterfly::kernels {

// A table of rows, each `row_values` long, stored as `dtype` without gaps. Borrowed.
struct RowTable {
  DType dtype;
  std::span<const std::byte> bytes;
  size_t row_values;  // a multiple of the dtype's block
};

// out[i] = row ids[i] as floats; `out` holds ids.size() * row_values floats. BF_CHECKs that each id is a row.
void gather_rows(const RowTable& table, std::span<const int32_t> ids, float* out);

}  // namespace butterfly::kernels
