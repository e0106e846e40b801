#include "kernels/rows/top_values.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "base/check.h"
#include "kernels/rows/row_scan.h"

namespace butterfly::kernels {
namespace {

constexpr size_t kBlock = 256;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Found {
  float value;
  int32_t index;
  friend bool operator<(const Found& a, const Found& b) {
    return a.value > b.value || (a.value == b.value && a.index < b.index);
  }
};

// Rare: a model that is broken.
size_t take_strange(const float* row, size_t count, size_t k, int32_t* indices, float* values) {
  size_t taken = 0;
  for (size_t i = 0; i < count && taken < k; ++i)
    if (std::isnan(row[i]) || row[i] == kInfinity) {
      indices[taken] = static_cast<int32_t>(i);
      values[taken++] = row[i];
    }
  return taken;
}

size_t take_lowest(const float* row, size_t count, size_t k, size_t taken, int32_t* indices, float* values) {
  for (size_t i = 0; i < count && taken < k; ++i)
    if (row[i] == -kInfinity) {
      indices[taken] = static_cast<int32_t>(i);
      values[taken++] = row[i];
    }
  return taken;
}

}  // namespace

void top_values(const float* row, size_t count, size_t k, int32_t* indices, float* values) {
  BF_CHECK(k >= 1 && k <= count) << k << " of " << count;
  std::vector<float> maxima((count + kBlock - 1) / kBlock);
  const bool numbers = block_maxima(row, count, kBlock, maxima.data());
  size_t taken = 0;
  if (!numbers || *std::max_element(maxima.begin(), maxima.end()) == kInfinity)
    taken = take_strange(row, count, k, indices, values);
  // The k-th largest of the blocks' maxima: so many values at least are not below it, and few more are.
  float least = std::numeric_limits<float>::lowest();
  if (k <= maxima.size() && taken == 0) {
    std::vector<float> sorted = maxima;
    const auto place = sorted.begin() + static_cast<ptrdiff_t>(k - 1);
    std::nth_element(sorted.begin(), place, sorted.end(), std::greater<>());
    least = std::max(least, *place);
  }
  std::vector<Found> found;
  float block_values[kBlock];
  int32_t block_indices[kBlock];
  for (size_t block = 0; block < maxima.size() && taken < k; ++block) {
    if (!(maxima[block] >= least)) continue;
    const size_t begin = block * kBlock;
    const size_t here =
        collect_between(row + begin, std::min(kBlock, count - begin), static_cast<int32_t>(begin), least,
                        kInfinity, block_values, block_indices);
    for (size_t i = 0; i < here; ++i) found.push_back({block_values[i], block_indices[i]});
  }
  const auto end = found.begin() + static_cast<ptrdiff_t>(std::min(k - taken, found.size()));
  std::partial_sort(found.begin(), end, found.end());
  for (auto it = found.begin(); it != end; ++it, ++taken) {
    indices[taken] = it->index;
    values[taken] = it->value;
  }
  taken = take_lowest(row, count, k, taken, indices, values);
  BF_CHECK(taken == k) << taken << " of " << k;
}

}  // namespace butterfly::kernels
