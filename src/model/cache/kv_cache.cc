#include "model/cache/kv_cache.h"

#include "base/checked.h"

namespace butterfly::model {

KvCache::KvCache(const KvShape& shape, size_t positions, size_t sequences)
    : memory_(shape, ceil_div(positions, kernels::kKvPage)), pages_(sequences), page_views_(sequences) {
  for (size_t i = memory_.pages(); i > 0; --i) free_.push_back(static_cast<uint32_t>(i - 1));
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
}

graph::KvStep KvCache::step(std::span<const graph::KvRow> rows) {
  for (size_t s = 0; s < pages_.size(); ++s) page_views_[s] = pages_[s];
  return memory_.step(page_views_, rows);
}

}  // namespace butterfly::model
