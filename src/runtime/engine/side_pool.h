// Pages that a text has for some of its blocks only: the last ones, where layers see a window; the ends of a
// few, where layers have a recurrent state.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace butterfly::runtime {

// Numbers only, as PagePool. A page can be attached to a published page of the PagePool that holds the same
// block: it stays findable through that one after its last user has gone, until its memory is needed, least
// recently used first. Not thread-safe.
class SidePool {
 public:
  // `owners`: pages of the PagePool.
  SidePool(size_t page_count, size_t owners);

  // A page for one user, contents undefined. Takes a kept page when none is free; nothing if all are in use.
  std::optional<uint32_t> allocate();
  void add_user(uint32_t page);
  void release(uint32_t page);

  // The page that belongs to the owner. Adds no user.
  std::optional<uint32_t> find(uint32_t owner) const;
  // The owner has one now, unless it had one already. `page` must be in use and not attached elsewhere.
  void attach(uint32_t owner, uint32_t page);
  void detach(uint32_t owner);
  void detach_all();

  size_t page_count() const { return pages_.size(); }
  size_t available() const { return free_.size() + kept_; }  // that allocate() could give
  size_t kept() const { return kept_; }
  size_t used() const { return pages_.size() - available(); }
  size_t users(uint32_t page) const { return pages_[page].users; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Page {
    uint32_t users = 0;
    uint32_t owner = kNone;
    uint64_t used_at = 0;  // when its last user left
  };
  std::vector<Page> pages_;
  std::vector<uint32_t> of_owner_;
  std::vector<uint32_t> free_;
  size_t kept_ = 0;
  uint64_t now_ = 0;
};

}  // namespace butterfly::runtime
