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

TextRefill refill_of(const CacheReport& report, const TextClaims& text, size_t page_positions) {
  const auto has = [&](size_t layer, const TextClaims::State& state) {
    return report.layers[layer][state.claim] > 0;
  };
  const TextClaims::State* from = text.last ? &*text.last : text.block_end ? &*text.block_end : nullptr;
  if (from == nullptr) return {};
  if (text.last && text.block_end)
    for (size_t layer = 0; layer < report.layers.size(); ++layer)
      if (has(layer, *text.block_end) && !has(layer, *text.last)) from = &*text.block_end;
  // Of the pages before it: whether somebody has all their positions.
  const auto whole = [&](const std::vector<uint8_t>& filled) {
    for (size_t block = 0; block * page_positions < from->position; ++block) {
      const size_t needed = std::min(page_positions, from->position - block * page_positions);
      if (filled[text.pages[block]] < needed) return false;
    }
    return true;
  };
  // As one page that is there or is not.
  CacheReport as_one{.claims = 1, .layers = {}, .rows = {}};
  for (size_t layer = 0; layer < report.layers.size(); ++layer)
    as_one.layers.push_back({uint8_t{has(layer, *from) && whole(report.layers[layer])}});
  for (const CacheReport::Rows& rows : report.rows)
    as_one.rows.push_back({rows.behind, {uint8_t{whole(rows.filled)}}});
  return {from->position, refill_of(as_one, 0, 1).spans};
}

}  // namespace butterfly::runtime
