// The largest values of a long row, and where they stand.
#pragma once
#include <cstddef>
#include <cstdint>

namespace butterfly::kernels {

// The first `k` (1 to count) of a row in order: larger before smaller, of equals (-0 equals 0) the smaller
// index. What is no number that can be chosen, NaN or +infinity, comes before all others, in order of
// indices; -infinity comes last.
void top_values(const float* row, size_t count, size_t k, int32_t* indices, float* values);

}  // namespace butterfly::kernels
