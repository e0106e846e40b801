#include "runtime/engine/stage_cache.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/attention/kv_page.h"

namespace butterfly::runtime {
namespace {

using kernels::kKvPage;

}  // namespace

Lineage lineage_of_adapter(uint32_t adapter) {
  if (adapter == 0) return kNoText;
  return sha256(std::as_bytes(std::span(&adapter, 1)));  // fewer bytes than a token with what is before it
}

Lineage lineage_after(const Lineage& before, int32_t token) {
  std::array<std::byte, sizeof before + sizeof token> bytes;
  std::memcpy(bytes.data(), before.data(), sizeof before);
  std::memcpy(bytes.data() + sizeof before, &token, sizeof token);
  return sha256(bytes);
}

StageCache::StageCache(const model::CacheShape& shape, const StageCacheOptions& options)
    : options_(options), memory_(shape, options.room), touched_(pages()) {
  if (options_.room.of(model::PageKind::kWindow) > 0) options_.keeps_contents = false;
  if (options_.keeps_contents) lineages_.resize(pages() * kKvPage);
}

bool StageCache::fits(const model::CacheShape& shape, const StageCacheOptions& options) const {
  return memory_.shape() == shape && options_.room == options.room && options_.dim == options.dim &&
         options_.rows_bytes_max == options.rows_bytes_max &&
         options_.keeps_contents ==
             (options.keeps_contents && options.room.of(model::PageKind::kWindow) == 0);
}

size_t StageCache::at(uint32_t page, size_t offset) const { return size_t{page} * kKvPage + offset; }

void StageCache::shrink_to(size_t begin, size_t end) {
  const size_t was = memory_.begin();
  memory_.keep(begin, end);
  const auto first = static_cast<ptrdiff_t>(memory_.begin() - was),
             last = static_cast<ptrdiff_t>(memory_.end() - was);
  const auto cut_to = [&](auto& layers) {
    layers.erase(layers.begin() + last, layers.end());
    layers.erase(layers.begin(), layers.begin() + first);
  };
  cut_to(filled_);
  cut_to(states_);
  count_touched();
  std::erase_if(rows_, [&](const Rows& rows) { return rows.behind <= begin || rows.behind > end; });
}

void StageCache::extend_to(size_t begin, size_t end) {
  // All of them are new if none is here.
  const size_t first = filled_.empty() ? end : memory_.begin(), last = filled_.empty() ? end : memory_.end();
  memory_.extend(begin, end);
  filled_.insert(filled_.begin(), first - begin, std::vector<uint8_t>(pages()));
  filled_.insert(filled_.end(), end - last, std::vector<uint8_t>(pages()));
  for (size_t layer = first; layer > begin; --layer) states_.insert(states_.begin(), no_states(layer - 1));
  for (size_t layer = last; layer < end; ++layer) states_.push_back(no_states(layer));
}

std::vector<Lineage> StageCache::no_states(size_t layer) const {
  const bool recurrent =
      options_.keeps_contents &&
      model::page_kind(memory_.shape().layers[layer], options_.room) == model::PageKind::kState;
  return std::vector<Lineage>(recurrent ? options_.room.of(model::PageKind::kState) : 0);
}

void StageCache::forget_all() {
  for (auto& layer : filled_) std::ranges::fill(layer, uint8_t{0});
  for (auto& layer : states_) std::ranges::fill(layer, kNoText);
  rows_.clear();
}

bool StageCache::holds(uint32_t page, size_t count, size_t begin, size_t end) const {
  for (size_t layer = begin; layer < end; ++layer)
    if (!is_recurrent(layer) && filled_[layer - memory_.begin()][page] < count) return false;
  return true;
}

bool StageCache::holds_state(uint32_t page, const Lineage& behind, size_t begin, size_t end) const {
  for (size_t layer = begin; layer < end; ++layer)
    if (is_recurrent(layer) && (states_[layer - memory_.begin()][page] != behind || behind == kNoText))
      return false;
  return true;
}

void StageCache::wrote_state(uint32_t page, const Lineage& behind, size_t begin, size_t end) {
  for (size_t layer = begin; layer < end; ++layer)
    if (is_recurrent(layer)) states_[layer - memory_.begin()][page] = behind;
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

// ---- What is asked for by name ----

bool StageCache::known(const PageClaim& claim) const {
  return options_.keeps_contents && claim.count > 0 && claim.lineage != kNoText &&
         (claim.kind == model::PageKind::kState || (claim.page < pages() && claim.count <= kKvPage &&
                                                    lineage(claim.page, claim.count - 1) == claim.lineage));
}

// How much of a claim the layer at this index has.
size_t StageCache::held(const PageClaim& claim, size_t index) const {
  if (!known(claim)) return 0;
  const std::vector<Lineage>& names = states_[index];
  if (claim.kind == model::PageKind::kState)
    return names.empty() || (claim.page < names.size() && names[claim.page] == claim.lineage) ? claim.count
                                                                                              : 0;
  // A recurrent layer lacks no positions, but rows behind one that has no name could not be named.
  return names.empty() ? std::min<size_t>(filled_[index][claim.page], claim.count) : claim.count;
}

void StageCache::report(std::span<const PageClaim> claims, CacheReport& into) const {
  into.claims = claims.size();
  for (size_t i = 0; i < filled_.size(); ++i) {
    std::vector<uint8_t>& counts = into.layers.emplace_back();
    for (const PageClaim& claim : claims) counts.push_back(static_cast<uint8_t>(held(claim, i)));
  }
  for (const Rows& rows : rows_) {
    if (rows.behind <= memory_.begin() || rows.behind > end()) continue;
    CacheReport::Rows& found = into.rows.emplace_back(CacheReport::Rows{rows.behind, {}});
    for (const PageClaim& claim : claims) {
      const bool is_here = claim.kind == model::PageKind::kFull && known(claim);
      found.filled.push_back(
          static_cast<uint8_t>(is_here ? std::min<size_t>(rows.filled[claim.page], claim.count) : size_t{0}));
    }
  }
}

std::shared_ptr<const StageCache> StageCache::part(size_t begin, size_t end) const {
  BF_CHECK(begin >= memory_.begin() && begin <= end && end <= memory_.end()) << begin << " to " << end;
  auto part = std::make_shared<StageCache>(memory_.shape(), options_);
  part->memory_ = memory_;
  part->filled_ = filled_;
  part->states_ = states_;
  part->lineages_ = lineages_;
  part->touched_ = touched_;
  part->touched_pages_ = touched_pages_;
  part->shrink_to(begin, end);
  return part;
}

bool StageCache::has(const PageClaim& claim, size_t layer) const {
  return held(claim, layer - memory_.begin()) == claim.count && claim.count > 0;
}

std::span<const Lineage> StageCache::names(const PageClaim& claim) const {
  if (claim.kind == model::PageKind::kState || !known(claim)) return {};
  return std::span(lineages_).subspan(at(claim.page, 0), claim.count);
}

bool StageCache::adopt_names(const PageClaim& claim, std::span<const Lineage> names) {
  if (!options_.keeps_contents || claim.count == 0 || claim.lineage == kNoText) return false;
  if (claim.kind == model::PageKind::kState)
    return names.empty() && claim.page < options_.room.of(model::PageKind::kState);
  if (claim.page >= pages() || claim.count > kKvPage || names.size() != claim.count ||
      names.back() != claim.lineage || std::ranges::count(names, kNoText) > 0)
    return false;
  if (known(claim)) return std::ranges::equal(names, this->names(claim));
  for (size_t i = 0; i < names.size(); ++i) name(claim.page, i, names[i]);
  return true;
}

void StageCache::adopt(const PageClaim& claim, size_t layer) {
  const size_t index = layer - memory_.begin();
  if (claim.kind == model::PageKind::kState) {
    if (!states_[index].empty()) states_[index][claim.page] = claim.lineage;
  } else {
    filled_[index][claim.page] = static_cast<uint8_t>(claim.count);
  }
}

}  // namespace butterfly::runtime
