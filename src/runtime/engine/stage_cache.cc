#include "runtime/engine/stage_cache.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/attention/kv_page.h"

namespace butterfly::runtime {
namespace {

using kernels::kKvPage;

}  // namespace

Lineage lineage_after(const Lineage& before, int32_t token) {
  std::array<std::byte, sizeof before + sizeof token> bytes;
  std::memcpy(bytes.data(), before.data(), sizeof before);
  std::memcpy(bytes.data() + sizeof before, &token, sizeof token);
  return sha256(bytes);
}

StageCache::StageCache(const model::CacheShape& shape, const StageCacheOptions& options)
    : options_(options), memory_(shape, options.room), touched_(pages()) {
  if (options_.room.has_more_kinds()) options_.keeps_contents = false;
  if (options_.keeps_contents) lineages_.resize(pages() * kKvPage);
}

bool StageCache::fits(const model::CacheShape& shape, const StageCacheOptions& options) const {
  return memory_.shape() == shape && options_.room == options.room && options_.dim == options.dim &&
         options_.rows_bytes_max == options.rows_bytes_max &&
         options_.keeps_contents == (options.keeps_contents && !options.room.has_more_kinds());
}

size_t StageCache::at(uint32_t page, size_t offset) const { return size_t{page} * kKvPage + offset; }

void StageCache::shrink_to(size_t begin, size_t end) {
  const size_t was = memory_.begin();
  memory_.keep(begin, end);
  const size_t first = memory_.begin() - was;
  filled_.erase(filled_.begin() + static_cast<ptrdiff_t>(memory_.end() - was), filled_.end());
  filled_.erase(filled_.begin(), filled_.begin() + static_cast<ptrdiff_t>(first));
  count_touched();
  std::erase_if(rows_, [&](const Rows& rows) { return rows.behind <= begin || rows.behind > end; });
}

void StageCache::extend_to(size_t begin, size_t end) {
  // All of them are new if none is here.
  const size_t first = filled_.empty() ? end : memory_.begin(), last = filled_.empty() ? end : memory_.end();
  memory_.extend(begin, end);
  filled_.insert(filled_.begin(), first - begin, std::vector<uint8_t>(pages()));
  filled_.insert(filled_.end(), end - last, std::vector<uint8_t>(pages()));
}

void StageCache::forget_all() {
  for (auto& layer : filled_) std::ranges::fill(layer, uint8_t{0});
  rows_.clear();
}

bool StageCache::holds(uint32_t page, size_t count, size_t begin, size_t end) const {
  for (size_t layer = begin; layer < end; ++layer)
    if (filled_[layer - memory_.begin()][page] < count) return false;
  return true;
}

void StageCache::cut(uint32_t page, size_t offset) {
  const auto most = static_cast<uint8_t>(offset);
  for (auto& layer : filled_) layer[page] = std::min(layer[page], most);
  for (Rows& rows : rows_) rows.filled[page] = std::min(rows.filled[page], most);
}

void StageCache::name(uint32_t page, size_t offset, const Lineage& lineage) {
  Lineage& there = lineages_[at(page, offset)];
  if (there != lineage) {
    there = lineage;
    // What stands behind it in the page was behind something else.
    for (size_t i = offset + 1; i < kKvPage; ++i) lineages_[at(page, i)] = kNoText;
    cut(page, offset);
  }
  if (touched_[page]) return;
  touched_[page] = true;
  ++touched_pages_;
  count_touched();
}

void StageCache::count_touched() {
  touched_bytes_ = pages() == 0 ? 0 : memory_.bytes() / pages() * touched_pages_;
}

void StageCache::wrote(uint32_t page, size_t offset, size_t begin, size_t end) {
  for (size_t layer = begin; layer < end; ++layer) {
    uint8_t& filled = filled_[layer - memory_.begin()][page];
    if (filled == offset) filled = static_cast<uint8_t>(offset + 1);
  }
}

void StageCache::doubt(uint32_t page, size_t offset, size_t begin, size_t end) {
  for (size_t layer = begin; layer < end; ++layer) {
    uint8_t& filled = filled_[layer - memory_.begin()][page];
    filled = std::min(filled, static_cast<uint8_t>(offset));
  }
}

// ---- Rows ----

StageCache::Rows* StageCache::rows_behind(size_t layer) {
  const auto found = std::ranges::find(rows_, layer, &Rows::behind);
  return found == rows_.end() ? nullptr : &*found;
}

uint64_t StageCache::kept_row_bytes() const {
  uint64_t pages = 0;
  for (const Rows& rows : rows_) pages += rows.held;
  return pages * kKvPage * options_.dim * sizeof(float);
}

// Memory for one page of rows: new, or of a page that nobody needs; null if there is none.
std::unique_ptr<float[]> StageCache::room(Rows& rows, const std::function<bool(uint32_t)>& in_use) {
  const uint64_t page_bytes = uint64_t{kKvPage} * options_.dim * sizeof(float);
  if (kept_row_bytes() + page_bytes <= options_.rows_bytes_max)
    return std::make_unique_for_overwrite<float[]>(kKvPage * options_.dim);
  const auto take = [](Rows& from, size_t page) {
    from.filled[page] = 0;
    --from.held;
    return std::move(from.values[page]);
  };
  for (Rows& old : rows_)
    for (size_t page = 0; &old != &rows && page < old.values.size(); ++page)
      if (old.values[page] != nullptr && !in_use(static_cast<uint32_t>(page))) return take(old, page);
  for (size_t i = 0; i < pages(); ++i) {
    rows.hand = (rows.hand + 1) % pages();
    if (rows.values[rows.hand] != nullptr && !in_use(static_cast<uint32_t>(rows.hand)))
      return take(rows, rows.hand);
  }
  return nullptr;
}

void StageCache::keep_row(uint32_t page, size_t offset, std::span<const float> row,
                          const std::function<bool(uint32_t)>& in_use) {
  if (options_.rows_bytes_max == 0 || !options_.keeps_contents || end() == 0) return;
  Rows* rows = rows_behind(end());
  if (rows == nullptr) {
    if (rows_.size() == kRowPlacesMax) rows_.erase(rows_.begin());
    rows_.push_back({end(), std::vector<uint8_t>(pages()), {}, 0, 0});
    rows = &rows_.back();
    rows->values.resize(pages());
  }
  if (rows->filled[page] < offset) return;  // what is before it is not here
  if (rows->values[page] == nullptr) {
    rows->values[page] = room(*rows, in_use);
    if (rows->values[page] == nullptr) return;
    ++rows->held;
  }
  std::memcpy(rows->values[page].get() + offset * options_.dim, row.data(), row.size_bytes());
  rows->filled[page] = std::max(rows->filled[page], static_cast<uint8_t>(offset + 1));
}

const float* StageCache::row(size_t behind, uint32_t page, size_t offset) const {
  for (const Rows& rows : rows_)
    if (rows.behind == behind && rows.filled[page] > offset)
      return rows.values[page].get() + offset * options_.dim;
  return nullptr;
}

void StageCache::drop_old_rows() {
  std::erase_if(rows_, [&](const Rows& rows) { return rows.behind != end(); });
}

void StageCache::report(std::span<const PageClaim> claims, CacheReport& into) const {
  const auto found = [&](const PageClaim& claim, const std::vector<uint8_t>& filled) -> uint8_t {
    const bool known = options_.keeps_contents && claim.page < pages() && claim.count > 0 &&
                       claim.count <= kKvPage && lineage(claim.page, claim.count - 1) == claim.lineage;
    return known ? static_cast<uint8_t>(std::min<size_t>(filled[claim.page], claim.count)) : uint8_t{0};
  };
  const auto all = [&](const std::vector<uint8_t>& filled) {
    std::vector<uint8_t> counts;
    for (const PageClaim& claim : claims) counts.push_back(found(claim, filled));
    return counts;
  };
  into.claims = claims.size();
  for (const auto& layer : filled_) into.layers.push_back(all(layer));
  for (const Rows& rows : rows_)
    if (rows.behind > memory_.begin() && rows.behind <= end())
      into.rows.push_back({rows.behind, all(rows.filled)});
}

}  // namespace butterfly::runtime
