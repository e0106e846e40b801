// Which pages of the key/value cache are free, lent, or kept because another request may begin the same way.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "graph/kv_step.h"
#include "runtime/engine/side_pool.h"

namespace butterfly::runtime {

// Numbers only: the pages themselves are at the stages, which all use the same numbers.
//
// Pages whose positions are all computed can be published: they become nodes of a tree in which a node is a
// page's tokens behind its parent's. Equal nodes hold equal bits, so they are shared; a published page stays
// findable after its last user has gone, until its memory is needed, least recently used first. Look-ups
// compare the tokens themselves: two texts never share a page because their hashes are equal.
//
// Whoever holds a node's page also holds its ancestors' (a text holds all its pages). Not thread-safe.
class PagePool {
 public:
  // A published beginning of a text. kRoot is the empty one. Numbers are never used again.
  using NodeId = uint64_t;
  static constexpr NodeId kRoot = 0;
  // Another empty beginning, with a tree of its own: texts of one owner are not found from another's. Owner 0
  // has kRoot.
  static constexpr NodeId root_of(uint64_t owner) { return owner == 0 ? kRoot : kOwned | owner; }
  static constexpr bool is_root(NodeId node) { return node == kRoot || (node & kOwned) != 0; }

  // `window_pages`, `state_pages`: of the other kinds.
  PagePool(size_t page_count, size_t page_positions, size_t window_pages = 0, size_t state_pages = 0);

  // A page for one user, contents undefined. Takes a kept page when none is free; nothing if all are in use.
  std::optional<uint32_t> allocate();
  // One more or one less user. Release a text's pages last to first, so that its end is forgotten before its
  // beginning.
  void add_user(uint32_t page);
  void release(uint32_t page);

  struct Published {
    uint32_t page;
    NodeId node;
  };
  // The page behind `parent` that holds these `page_positions` tokens. Adds no user.
  std::optional<Published> find(NodeId parent, std::span<const int32_t> tokens) const;
  // `page` now holds these tokens behind `parent`. If another page does already, that one is returned: use it
  // instead.
  Published publish(NodeId parent, std::span<const int32_t> tokens, uint32_t page);
  // Forgets all nodes: the contents are gone. Users stay users.
  void forget_all();
  // Forgets the nodes of these pages and all behind them.
  void forget(std::span<const uint32_t> pages);
  bool is_published(uint32_t page) const { return pages_[page].node != kRoot; }

  // Pages of the other kinds. What is attached to a published page goes when that is forgotten.
  SidePool& side(graph::PageKind kind) { return kind == graph::PageKind::kWindow ? window_ : states_; }
  const SidePool& side(graph::PageKind kind) const {
    return kind == graph::PageKind::kWindow ? window_ : states_;
  }

  // A published page, with the page that it stands behind (none: it begins a text).
  struct Entry {
    uint32_t page;
    std::optional<uint32_t> parent;
    std::span<const int32_t> tokens;
    uint64_t owner = 0;  // of one that begins a text
  };
  // All of them, every parent before its children.
  std::vector<Entry> published() const;
  // Published pages, those in use first, then the others from the most recently used on.
  std::vector<uint32_t> by_recency() const;

  size_t page_count() const { return pages_.size(); }
  size_t page_positions() const { return page_positions_; }
  size_t available() const { return free_.size() + kept_count_; }  // that allocate() could give
  size_t kept() const { return kept_count_; }
  size_t used() const { return pages_.size() - available(); }
  size_t users(uint32_t page) const { return pages_[page].users; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr NodeId kOwned = NodeId{1} << 63;
  struct Page {
    uint32_t users = 0;
    NodeId node = kRoot;  // kRoot: not published
    NodeId parent = kRoot;
    uint64_t hash = 0;
    uint32_t older = kNone, newer = kNone;  // neighbours among the kept
  };
  std::span<const int32_t> tokens_of(uint32_t page) const {
    return {tokens_.data() + page * page_positions_, page_positions_};
  }
  void keep(uint32_t page);    // as the most recently used
  void unkeep(uint32_t page);  // takes it out of the list
  void unpublish(uint32_t page);

  size_t page_positions_;
  std::vector<Page> pages_;
  std::vector<int32_t> tokens_;  // [page, position] of published pages
  std::vector<uint32_t> free_;
  uint32_t oldest_ = kNone, newest_ = kNone;  // of the kept
  size_t kept_count_ = 0;
  NodeId next_node_ = kRoot + 1;
  std::unordered_multimap<uint64_t, uint32_t> by_hash_;
  SidePool window_, states_;
};

}  // namespace butterfly::runtime
