// Rows added to rows of a table by index.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "kernels/elementwise/elementwise.h"

namespace butterfly::kernels {

// table[ids[i]] += x[i] for columns [begin, end) of `cols`, i by i: rows with the same id are added in order,
// so threads may take columns. BF_CHECKs that ids are rows of the table.
inline void scatter_add(const float* x, std::span<const int32_t> ids, size_t cols, size_t begin, size_t end,
                        float* table, size_t table_rows) {
  for (size_t row = 0; row < ids.size(); ++row) {
    BF_CHECK(ids[row] >= 0 && static_cast<size_t>(ids[row]) < table_rows)
        << "[scatter_rows] row " << ids[row] << " of a table of " << table_rows << " rows";
    float* to = table + static_cast<size_t>(ids[row]) * cols + begin;
    add(to, x + row * cols + begin, to, end - begin);
  }
}

}  // namespace butterfly::kernels
