// The inner loop of every byte pair encoding: neighbours are joined, the best pair first, until no pair can
// be.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "model/tokenizer/join_queue.h"

namespace butterfly::model {

// A stretch of text that is one symbol so far.
struct MergeSymbol {
  int32_t id;
  uint32_t mark;  // the caller's, of the leftmost of those it was joined from
};

// Memory of merges, kept between calls. For one thread at a time.
class SymbolMerger {
 public:
  // Joins pairs in place. Of Rules it uses
  //   int32_t find(int32_t left, int32_t right)   a join, -1 if the two cannot be joined;
  //   void prefetch(int32_t left, int32_t right)  find() comes soon;
  //   uint32_t order(int32_t join)                the least is done first, of equals the leftmost;
  //   int32_t symbol(int32_t join)                what it makes of the two.
  // Short lists are scanned for the best pair, long ones keep a queue.
  template <typename Rules>
  void merge(std::vector<MergeSymbol>& symbols, const Rules& rules) {
    if (symbols.size() > kScanMax)
      merge_by_queue(symbols, rules);
    else if (symbols.size() > 1)
      merge_by_scan(symbols, rules);
  }

 private:
  static constexpr size_t kScanMax = 48;
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  struct Node {
    int32_t id;
    int32_t join;  // with what follows, -1 if there is none
    uint32_t next, previous;
  };

  template <typename Rules>
  static void merge_by_scan(std::vector<MergeSymbol>& symbols, const Rules& rules) {
    int32_t joins[kScanMax];  // of i and i + 1
    uint64_t orders[kScanMax];
    size_t count = symbols.size();
    const auto look = [&](size_t i) {
      joins[i] = rules.find(symbols[i].id, symbols[i + 1].id);
      orders[i] = joins[i] < 0 ? std::numeric_limits<uint64_t>::max() : rules.order(joins[i]);
    };
    for (size_t i = 0; i + 1 < count; ++i) look(i);
    while (count > 1) {
      size_t best = 0;
      for (size_t i = 1; i + 1 < count; ++i)
        if (orders[i] < orders[best]) best = i;
      if (joins[best] < 0) break;
      symbols[best].id = rules.symbol(joins[best]);
      --count;
      for (size_t i = best + 1; i < count; ++i) {
        symbols[i] = symbols[i + 1];
        joins[i] = joins[i + 1];  // the last one reads a stale entry that is never looked at
        orders[i] = orders[i + 1];
      }
      if (best > 0) look(best - 1);
      if (best + 1 < count) look(best);
    }
    symbols.resize(count);
  }

  // A linked list of symbols, and a queue of possible joins by order and place. A join whose symbols have
  // changed since it was queued is known by the order of what `left` and its follower would be joined to now.
  template <typename Rules>
  void merge_by_queue(std::vector<MergeSymbol>& symbols, const Rules& rules) {
    const auto count = static_cast<uint32_t>(symbols.size());
    nodes_.resize(count);
    for (uint32_t i = 0; i < count; ++i)
      nodes_[i] = {symbols[i].id, -1, i + 1 < count ? i + 1 : kNone, i > 0 ? i - 1 : kNone};
    queue_.clear();
    const auto look = [&](uint32_t left) {
      Node& node = nodes_[left];
      node.join = node.next == kNone ? -1 : rules.find(node.id, nodes_[node.next].id);
      if (node.join >= 0) queue_.push(uint64_t{rules.order(node.join)} << 32 | left);
    };
    for (uint32_t i = 0; i + 1 < count; ++i) look(i);
    for (uint64_t key; queue_.pop(key);) {
      const auto left = static_cast<uint32_t>(key);
      Node& node = nodes_[left];
      if (node.join < 0 || rules.order(node.join) != key >> 32) continue;
      Node& right = nodes_[node.next];
      node.id = rules.symbol(node.join);
      right.join = -1;
      node.next = right.next;
      // Both look-ups miss the cache in large vocabularies: let them miss together.
      if (node.previous != kNone) rules.prefetch(nodes_[node.previous].id, node.id);
      if (node.next != kNone) {
        rules.prefetch(node.id, nodes_[node.next].id);
        nodes_[node.next].previous = left;
      }
      if (node.previous != kNone) look(node.previous);
      look(left);
    }
    size_t kept = 0;
    for (uint32_t i = 0; i != kNone; i = nodes_[i].next) symbols[kept++] = {nodes_[i].id, symbols[i].mark};
    symbols.resize(kept);
  }

  std::vector<Node> nodes_;
  JoinQueue queue_;
};

}  // namespace butterfly::model
