#include "runtime/engine/page_pool.h"

#include <algorithm>

#include "base/check.h"

namespace butterfly::runtime {
namespace {

// Only has to spread: equality is decided by comparing.
uint64_t hash_of(PagePool::NodeId parent, std::span<const int32_t> tokens) {
  uint64_t hash = parent * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
  for (const int32_t token : tokens) {
    hash = (hash ^ static_cast<uint32_t>(token)) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

PagePool::PagePool(size_t page_count, size_t page_positions, size_t window_pages, size_t state_pages)
    : page_positions_(page_positions),
      pages_(page_count),
      tokens_(page_count * page_positions),
      window_(window_pages, page_count),
      states_(state_pages, page_count) {
  free_.reserve(page_count);
  for (size_t i = page_count; i > 0; --i) free_.push_back(static_cast<uint32_t>(i - 1));
  by_hash_.reserve(page_count);
}

std::optional<uint32_t> PagePool::allocate() {
  uint32_t page;
  if (!free_.empty()) {
    page = free_.back();
    free_.pop_back();
  } else if (oldest_ != kNone) {
    page = oldest_;
    unkeep(page);
    unpublish(page);
  } else {
    return std::nullopt;
  }
  pages_[page].users = 1;
  return page;
}

void PagePool::add_user(uint32_t page) {
  Page& p = pages_[page];
  if (p.users++ == 0) {
    BF_CHECK(p.node != kRoot) << "page " << page << " is free, nobody can use it";
    unkeep(page);
  }
}

void PagePool::release(uint32_t page) {
  Page& p = pages_[page];
  BF_CHECK(p.users > 0) << "page " << page << " was released too often";
  if (--p.users > 0) return;
  if (p.node != kRoot) {
    keep(page);
  } else {
    free_.push_back(page);
  }
}

std::optional<PagePool::Published> PagePool::find(NodeId parent, std::span<const int32_t> tokens) const {
  const auto [begin, end] = by_hash_.equal_range(hash_of(parent, tokens));
  for (auto it = begin; it != end; ++it) {
    const Page& p = pages_[it->second];
    if (p.parent == parent && std::ranges::equal(tokens_of(it->second), tokens))
      return Published{it->second, p.node};
  }
  return std::nullopt;
}

PagePool::Published PagePool::publish(NodeId parent, std::span<const int32_t> tokens, uint32_t page) {
  BF_CHECK(tokens.size() == page_positions_) << tokens.size() << " tokens for a page of " << page_positions_;
  if (const auto known = find(parent, tokens)) return *known;
  Page& p = pages_[page];
  BF_CHECK(p.users > 0 && p.node == kRoot) << "page " << page << " cannot be published";
  p.node = next_node_++;
  p.parent = parent;
  p.hash = hash_of(parent, tokens);
  std::ranges::copy(tokens, tokens_.begin() + static_cast<ptrdiff_t>(page * page_positions_));
  by_hash_.emplace(p.hash, page);
  return {page, p.node};
}

void PagePool::forget_all() {
  while (oldest_ != kNone) {
    const uint32_t page = oldest_;
    unkeep(page);
    free_.push_back(page);
  }
  for (Page& page : pages_) page.node = page.parent = kRoot;
  by_hash_.clear();
  window_.detach_all();
  states_.detach_all();
}

std::vector<PagePool::Entry> PagePool::published() const {
  std::vector<uint32_t> order;
  std::unordered_map<NodeId, uint32_t> page_of;
  for (uint32_t page = 0; page < pages_.size(); ++page)
    if (is_published(page)) {
      order.push_back(page);
      page_of.emplace(pages_[page].node, page);
    }
  std::ranges::sort(order, {}, [&](uint32_t page) { return pages_[page].node; });  // numbers grow
  std::vector<Entry> entries;
  for (const uint32_t page : order) {
    const auto parent = page_of.find(pages_[page].parent);
    if (!is_root(pages_[page].parent) && parent == page_of.end()) continue;  // nobody can find it any more
    const bool begins = parent == page_of.end();
    entries.push_back({page, begins ? std::nullopt : std::optional(parent->second), tokens_of(page),
                       begins ? pages_[page].parent & ~kOwned : 0});
  }
  return entries;
}

std::vector<uint32_t> PagePool::by_recency() const {
  std::vector<uint32_t> pages;
  for (uint32_t page = 0; page < pages_.size(); ++page)
    if (is_published(page) && pages_[page].users > 0) pages.push_back(page);
  std::ranges::sort(pages, {}, [&](uint32_t page) { return pages_[page].node; });
  for (uint32_t page = newest_; page != kNone; page = pages_[page].older) pages.push_back(page);
  return pages;
}

void PagePool::forget(std::span<const uint32_t> pages) {
  const auto drop = [&](uint32_t page) {
    if (!is_published(page)) return;
    unpublish(page);
    if (pages_[page].users > 0) return;
    unkeep(page);
    free_.push_back(page);
  };
  std::ranges::for_each(pages, drop);
  std::vector<bool> reachable(pages_.size());
  for (const Entry& entry : published()) reachable[entry.page] = !entry.parent || reachable[*entry.parent];
  for (uint32_t page = 0; page < pages_.size(); ++page)
    if (!reachable[page]) drop(page);
}

void PagePool::keep(uint32_t page) {
  Page& p = pages_[page];
  p.older = newest_;
  p.newer = kNone;
  (newest_ == kNone ? oldest_ : pages_[newest_].newer) = page;
  newest_ = page;
  ++kept_count_;
}

void PagePool::unkeep(uint32_t page) {
  Page& p = pages_[page];
  (p.older == kNone ? oldest_ : pages_[p.older].newer) = p.newer;
  (p.newer == kNone ? newest_ : pages_[p.newer].older) = p.older;
  p.older = p.newer = kNone;
  --kept_count_;
}

void PagePool::unpublish(uint32_t page) {
  Page& p = pages_[page];
  const auto [begin, end] = by_hash_.equal_range(p.hash);
  for (auto it = begin; it != end; ++it)
    if (it->second == page) {
      by_hash_.erase(it);
      break;
    }
  p.node = p.parent = kRoot;
  window_.detach(page);
  states_.detach(page);
}

}  // namespace butterfly::runtime
