#include "kernels/rows/gather.h"

#include "base/check.h"
#include "kernels/quant/quant.h"

namespace butterfly::kernels {

void gather_rows(const RowTable& table, std::span<const int32_t> ids, float* out) {
  if (ids.empty() || table.row_values == 0) return;
  const auto row_bytes = dtype_bytes(table.dtype, table.row_values);
  BF_CHECK(row_bytes.has_value()) << "[gather_rows] " << dtype_name(table.dtype) << " has no rows of "
                                  << table.row_values << " values";
  const size_t rows = table.bytes.size() / *row_bytes;
  for (size_t i = 0; i < ids.size(); ++i) {
    BF_CHECK(ids[i] >= 0 && static_cast<size_t>(ids[i]) < rows)
        << "[gather_rows] row " << ids[i] << " of a table of " << rows << " rows";
    const std::byte* row = table.bytes.data() + static_cast<size_t>(ids[i]) * *row_bytes;
    to_float(table.dtype, row, out + i * table.row_values, table.row_values);
  }
}

}  // namespace butterfly::kernels
