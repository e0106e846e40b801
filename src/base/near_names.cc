#include "base/near_names.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace butterfly {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1), above(b.size() + 1), before(b.size() + 1);  // i, i - 1, i - 2
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, above);
    std::swap(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

std::string did_you_mean(std::string_view typed, std::span<const std::string_view> names) {
  std::string_view nearest;
  size_t best = near_edits(typed) + 1;
  for (const std::string_view name : names) {
    const size_t edits = edit_distance(typed, name);
    if (edits >= best) continue;
    best = edits;
    nearest = name;
  }
  return nearest.empty() ? std::string() : "; did you mean '" + std::string(nearest) + "'?";
}

}  // namespace butterfly
