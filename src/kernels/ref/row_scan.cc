#include <algorithm>
#include <limits>

#include "kernels/rows/row_scan.h"

namespace butterfly::kernels::ref {

bool block_maxima(const float* row, size_t count, size_t block, float* maxima) {
  bool numbers = true;
  for (size_t begin = 0; begin < count; begin += block) {
    float largest = -std::numeric_limits<float>::infinity();
    for (size_t i = begin; i < std::min(begin + block, count); ++i) {
      largest = row[i] > largest ? row[i] : largest;
      numbers &= row[i] == row[i];
    }
    *maxima++ = largest + 0.0f;  // -0 becomes +0: which of the two stood first must not show
  }
  return numbers;
}

size_t collect_between(const float* row, size_t count, int32_t first, float least, float below, float* values,
                       int32_t* indices) {
  size_t found = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!(row[i] >= least && row[i] < below)) continue;
    values[found] = row[i];
    indices[found++] = first + static_cast<int32_t>(i);
  }
  return found;
}

void keep_allowed(const float* row, size_t count, const uint64_t* allowed, float* out) {
  for (size_t i = 0; i < count; ++i)
    out[i] = (allowed[i / 64] >> i % 64 & 1) != 0 ? row[i] : -std::numeric_limits<float>::infinity();
}

}  // namespace butterfly::kernels::ref
