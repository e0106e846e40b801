#include "runtime/engine/side_pool.h"

#include "base/check.h"

namespace butterfly::runtime {

SidePool::SidePool(size_t page_count, size_t owners) : pages_(page_count), of_owner_(owners, kNone) {
  for (size_t i = page_count; i > 0; --i) free_.push_back(static_cast<uint32_t>(i - 1));
}

std::optional<uint32_t> SidePool::allocate() {
  if (free_.empty()) {
    uint32_t oldest = kNone;
    for (uint32_t page = 0; page < pages_.size(); ++page)
      if (pages_[page].users == 0 && (oldest == kNone || pages_[page].used_at < pages_[oldest].used_at))
        oldest = page;
    if (oldest == kNone) return std::nullopt;
    detach(pages_[oldest].owner);
  }
  const uint32_t page = free_.back();
  free_.pop_back();
  pages_[page].users = 1;
  return page;
}

void SidePool::add_user(uint32_t page) {
  Page& p = pages_[page];
  if (p.users++ > 0) return;
  BF_CHECK(p.owner != kNone) << "page " << page << " is free, nobody can use it";
  --kept_;
}

void SidePool::release(uint32_t page) {
  Page& p = pages_[page];
  BF_CHECK(p.users > 0) << "page " << page << " was released too often";
  if (--p.users > 0) return;
  p.used_at = ++now_;
  if (p.owner == kNone) {
    free_.push_back(page);
  } else {
    ++kept_;
  }
}

std::optional<uint32_t> SidePool::find(uint32_t owner) const {
  return of_owner_[owner] == kNone ? std::nullopt : std::optional(of_owner_[owner]);
}

void SidePool::attach(uint32_t owner, uint32_t page) {
  if (of_owner_[owner] != kNone) return;
  BF_CHECK(pages_[page].users > 0 && pages_[page].owner == kNone) << "page " << page << " cannot be attached";
  of_owner_[owner] = page;
  pages_[page].owner = owner;
}

void SidePool::detach(uint32_t owner) {
  const uint32_t page = of_owner_[owner];
  if (page == kNone) return;
  of_owner_[owner] = kNone;
  pages_[page].owner = kNone;
  if (pages_[page].users > 0) return;
  --kept_;
  free_.push_back(page);
}

void SidePool::detach_all() {
  for (uint32_t owner = 0; owner < of_owner_.size(); ++owner) detach(owner);
}

}  // namespace butterfly::runtime
