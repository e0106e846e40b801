#include "model/cache/kv_cache.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"

namespace butterfly::model {
namespace {

CacheRoom room_of(const CacheShape& shape, size_t positions, size_t sequences) {
  CacheRoom room = cache_room(shape.layers, {.positions = positions, .cut_windows = false});
  size_t& states = room.pages[static_cast<size_t>(PageKind::kState)];
  states = states > 0 ? sequences : 0;
  room.sequences = sequences;
  return room;
}

}  // namespace

KvCache::KvCache(const CacheShape& shape, size_t positions, size_t sequences)
    : memory_(shape, room_of(shape, positions, sequences)),
      pages_(sequences),
      page_views_(sequences),
      state_pages_(sequences),
      state_views_(sequences),
      seen_(sequences) {
  memory_.extend(0, shape.layers.size());
  for (size_t i = memory_.room().of(PageKind::kFull); i > 0; --i)
    free_.push_back(static_cast<uint32_t>(i - 1));
}

bool KvCache::reserve(size_t sequence, size_t positions) {
  auto& pages = pages_.at(sequence);
  const size_t wanted = ceil_div(positions, kernels::kKvPage);
  if (wanted > pages.size() + free_.size()) return false;
  while (pages.size() < wanted) {
    pages.push_back(free_.back());
    free_.pop_back();
  }
  return true;
}

void KvCache::truncate(size_t sequence, size_t positions) {
  auto& pages = pages_.at(sequence);
  const size_t kept = ceil_div(positions, kernels::kKvPage);
  while (pages.size() > kept) {
    free_.push_back(pages.back());
    pages.pop_back();
  }
  if (positions == 0) seen_[sequence] = 0;
}

void KvCache::run_states(std::span<const graph::KvRow> rows) {
  runs_.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto [sequence, position] = rows[i];
    const auto of = std::ranges::find(runs_, sequence, &graph::StateRun::sequence);
    const bool goes_on = !runs_.empty() && of == runs_.end() - 1;
    if (of == runs_.end())
      runs_.push_back({.sequence = sequence,
                       .first_row = static_cast<uint32_t>(i),
                       .position = position,
                       .from = seen_[sequence] == 0 ? graph::kNoPage : sequence});
    else if (!goes_on)
      fail(Errc::kInvalidArgument, "row {}: rows of sequence {} do not stand together", i, sequence);
    if (position != seen_[sequence])
      fail(Errc::kInvalidArgument,
           "position {} of sequence {}: its recurrent layers have seen {} positions, and cannot go back",
           position, sequence, seen_[sequence]);
    ++runs_.back().rows;
    ++runs_.back().certain;
    ++seen_[sequence];
  }
}

graph::KvStep KvCache::step(std::span<const graph::KvRow> rows) {
  for (size_t s = 0; s < pages_.size(); ++s) page_views_[s] = pages_[s];
  PageTables tables = {page_views_, {}, {}};
  if (memory_.room().of(PageKind::kState) > 0) {
    run_states(rows);
    for (size_t s = 0; s < pages_.size(); ++s) {
      state_pages_[s].assign(pages_[s].size(), static_cast<uint32_t>(s));
      state_views_[s] = state_pages_[s];
    }
    tables[static_cast<size_t>(PageKind::kState)] = state_views_;
  }
  return memory_.step(tables, rows, runs_);
}

}  // namespace butterfly::model
