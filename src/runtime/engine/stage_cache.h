// What a stage has of its texts: keys and values layer by layer, rows that it sent on, and the names of what
// is in each page. Stays when the stage gets other layers.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "model/arch/layer_range.h"
#include "model/cache/kv_memory.h"
#include "runtime/engine/cache_report.h"

namespace butterfly::runtime {

struct StageCacheOptions {
  model::CacheRoom room;
  size_t dim = 0;               // of rows
  uint64_t rows_bytes_max = 0;  // of rows that are kept; 0: none
  bool keeps_contents = true;   // false: nobody will ask; saves the hashing
};

// Pages are placed by an engine, which reuses them as it likes; here every position has the name of what was
// written into it last. A layer's positions count from a page's first one: whatever is written with another
// name cuts all layers back to before it. So an answer can be wrong in one direction only: it says less than
// is there.
//
// A page of a recurrent state has the name of the last position that the state has seen, layer by layer.
// Where layers have pages of a window, contents are not kept.
//
// One thread at a time; one stage at a time.
class StageCache {
 public:
  // Has no layer yet. Throws Error as KvMemory does.
  StageCache(const model::CacheShape& shape, const StageCacheOptions& options);

  // Layers outside [begin, end) are freed, and rows that could start no layer in there.
  void shrink_to(size_t begin, size_t end);
  // Layers [begin, end) are here; those that were not before are empty. Throws Error kOutOfMemory.
  void extend_to(size_t begin, size_t end);
  // Nothing is in any page.
  void forget_all();
  // No stage uses it, and what the last one did to it, on whatever thread, is done. From any thread.
  bool idle() const { return users_.load(std::memory_order_acquire) == 0; }

  size_t begin() const { return memory_.begin(); }
  size_t end() const { return memory_.end(); }
  const model::CacheRoom& room() const { return options_.room; }
  bool keeps_contents() const { return options_.keeps_contents; }
  bool fits(const model::CacheShape& shape, const StageCacheOptions& options) const;
  size_t bytes() const { return memory_.bytes(); }
  // Memory that was ever written: about what would come free. From any thread.
  uint64_t touched_bytes() const { return touched_bytes_; }
  model::KvMemory& memory() { return memory_; }

  // ---- Contents. Layers are numbered as in the model. ----

  const Lineage& lineage(uint32_t page, size_t offset) const { return lineages_[at(page, offset)]; }
  // Whether layers [begin, end) have the first `count` positions of the page, those that keep positions.
  bool holds(uint32_t page, size_t count, size_t begin, size_t end) const;
  // This position is about to be written, with this name.
  void name(uint32_t page, size_t offset, const Lineage& lineage);
  // It was, in these layers; they hold what is before it.
  void wrote(uint32_t page, size_t offset, size_t begin, size_t end);
  // It may be half written in these layers.
  void doubt(uint32_t page, size_t offset, size_t begin, size_t end);

  // The same for the recurrent ones among the layers [begin, end), and states.
  bool holds_state(uint32_t page, const Lineage& behind, size_t begin, size_t end) const;
  void wrote_state(uint32_t page, const Lineage& behind, size_t begin, size_t end);
  void doubt_state(uint32_t page, size_t begin, size_t end) { wrote_state(page, kNoText, begin, end); }

  // The row that went out behind the last layer. Kept if there is room: pages of which `in_use` says false
  // make some, others do not.
  void keep_row(uint32_t page, size_t offset, std::span<const float> row,
                const std::function<bool(uint32_t page)>& in_use);
  // The row behind layer `behind` - 1; null if it is not here.
  const float* row(size_t behind, uint32_t page, size_t offset) const;
  // Rows at places where the stage no longer ends are not needed any more.
  void drop_old_rows();
  uint64_t kept_row_bytes() const;

  // So many places have rows, at most.
  static constexpr size_t kRowPlacesMax = 2;

  // ---- Pages that other nodes get, or send. ----

  // Layers [begin, end) of those that are here, with what they hold now, for others to read. Shares their
  // memory: nobody may write it any more (so shrink_to() the others before this one goes on).
  std::shared_ptr<const StageCache> part(size_t begin, size_t end) const;
  const model::KvMemory& memory() const { return memory_; }
  // Whether this layer lacks nothing of the claim.
  bool has(const PageClaim& claim, size_t layer) const;
  // Of the claimed positions, the first one first; none where the claim is not known here, or of a state.
  std::span<const Lineage> names(const PageClaim& claim) const;
  // What the page holds is named so from now on, as names() of another node says. False: that cannot be, and
  // nothing has changed.
  bool adopt_names(const PageClaim& claim, std::span<const Lineage> names);
  // The layer's page was written with what is claimed.
  void adopt(const PageClaim& claim, size_t layer);

  // Of this stage's layers and rows. `layers` has one entry for each layer here, the first one first.
  void report(std::span<const PageClaim> claims, CacheReport& into) const;

 private:
  struct Rows {
    size_t behind = 0;
    std::vector<uint8_t> filled;                   // [page]
    std::vector<std::unique_ptr<float[]>> values;  // [page]: [positions, dim], null without any
    size_t held = 0;                               // pages with memory
    size_t hand = 0;                               // where the search for room goes on
  };
  size_t pages() const { return options_.room.of(model::PageKind::kFull); }
  bool is_recurrent(size_t layer) const { return !states_[layer - memory_.begin()].empty(); }
  std::vector<Lineage> no_states(size_t layer) const;
  size_t at(uint32_t page, size_t offset) const;
  void cut(uint32_t page, size_t offset);
  bool known(const PageClaim& claim) const;
  size_t held(const PageClaim& claim, size_t index) const;
  void count_touched();
  Rows* rows_behind(size_t layer);
  std::unique_ptr<float[]> room(Rows& rows, const std::function<bool(uint32_t)>& in_use);

  StageCacheOptions options_;
  model::KvMemory memory_;
  std::vector<std::vector<uint8_t>> filled_;  // [layer][page]
  std::vector<std::vector<Lineage>> states_;  // [layer][state page]; empty where a layer is not recurrent
  std::vector<Lineage> lineages_;             // [page, position]
  std::vector<bool> touched_;                 // [page]
  size_t touched_pages_ = 0;
  std::atomic<uint64_t> touched_bytes_{0};
  std::vector<Rows> rows_;  // oldest place first: behind the last layer, and where that was before
  friend class StageCacheUse;
  std::atomic<size_t> users_{0};
};

// Held by the stage that uses a cache, for as long as it does. (How many share a pointer says nothing of what
// they have done: counting them orders no memory.)
class StageCacheUse {
 public:
  explicit StageCacheUse(std::shared_ptr<StageCache> cache) : cache_(std::move(cache)) {
    cache_->users_.fetch_add(1, std::memory_order_relaxed);
  }
  ~StageCacheUse() { cache_->users_.fetch_sub(1, std::memory_order_release); }
  StageCacheUse(const StageCacheUse&) = delete;
  StageCacheUse& operator=(const StageCacheUse&) = delete;
  StageCache* operator->() const { return cache_.get(); }

 private:
  const std::shared_ptr<StageCache> cache_;
};

}  // namespace butterfly::runtime
