#include "runtime/engine/refill.h"

#include <algorithm>

namespace butterfly::runtime {

PageRefill refill_of(const CacheReport& report, size_t claim, uint32_t count) {
  PageRefill refill{.first = count, .count = count, .spans = {}};
  const auto lacks = [&](size_t layer) { return report.layers[layer][claim] < count; };
  // The nearest place in front of `layer` with all rows of the page.
  const auto source = [&](size_t layer) {
    size_t nearest = 0;
    for (const CacheReport::Rows& rows : report.rows)
      if (rows.behind <= layer && rows.filled[claim] >= count) nearest = std::max(nearest, rows.behind);
    return static_cast<uint32_t>(nearest);
  };
  for (size_t layer = 0; layer < report.layers.size(); ++layer) {
    if (!lacks(layer)) continue;
    refill.first = std::min<uint32_t>(refill.first, report.layers[layer][claim]);
    const auto end = static_cast<uint32_t>(layer + 1);
    if (!refill.spans.empty() &&
        (refill.spans.back().end == layer || source(layer) < refill.spans.back().end)) {
      refill.spans.back().end = end;
    } else {
      refill.spans.push_back({source(layer), end});
    }
  }
  return refill;
}

}  // namespace butterfly::runtime
