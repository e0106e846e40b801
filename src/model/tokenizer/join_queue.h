// A priority queue of 64-bit keys for work whose keys mostly rise.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace butterfly::model {

// Keys are an order, in the upper half, and a place.
//
// A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, "Faster algorithms for the shortest path problem", 1990) over
// orders: keys lie in buckets by the highest bit in which their order differs from the last one taken, and a
// bucket is dealt out to lower ones when its turn comes. A key moves down at most 32 times, through memory in
// sequence, where a binary heap of a million keys misses the cache at every level. Keys of one order become a
// run, sorted by place, which it nearly is already. Keys that come too late for that, of the current order or
// below it, are few here and go to a binary heap. One thread.
class JoinQueue {
 public:
  void clear() {
    for (auto& bucket : buckets_) bucket.clear();
    run_.clear();
    run_at_ = 0;
    late_.clear();
    order_ = 0;
    started_ = false;
  }

  void push(uint64_t key) {
    const uint64_t order = key >> 32;
    if (!started_ || order > order_) {
      buckets_[bucket_of(order)].push_back(key);
    } else {
      late_.push_back(key);
      std::push_heap(late_.begin(), late_.end(), std::greater<>());
    }
  }

  // Takes the smallest key; false if there is none.
  bool pop(uint64_t& key) {
    const bool in_run = run_at_ < run_.size();
    if (!late_.empty() && (!in_run || late_.front() < run_[run_at_])) {
      std::pop_heap(late_.begin(), late_.end(), std::greater<>());
      key = late_.back();
      late_.pop_back();
      return true;
    }
    if (!in_run && !refill()) return false;
    key = run_[run_at_++];
    return true;
  }

 private:
  size_t bucket_of(uint64_t order) const { return static_cast<size_t>(std::bit_width(order ^ order_)); }

  // Makes the keys of the smallest order the run.
  bool refill() {
    size_t lowest = 0;
    while (lowest < buckets_.size() && buckets_[lowest].empty()) ++lowest;
    if (lowest == buckets_.size()) return false;
    spare_.swap(buckets_[lowest]);
    order_ = *std::min_element(spare_.begin(), spare_.end()) >> 32;
    started_ = true;
    run_.clear();
    run_at_ = 0;
    for (const uint64_t key : spare_)
      (key >> 32 == order_ ? run_ : buckets_[bucket_of(key >> 32)]).push_back(key);
    spare_.clear();
    if (!std::is_sorted(run_.begin(), run_.end())) std::sort(run_.begin(), run_.end());
    return true;
  }

  std::array<std::vector<uint64_t>, 33> buckets_;
  std::vector<uint64_t> spare_;
  std::vector<uint64_t> run_;  // keys of order_, ascending; taken up to run_at_
  size_t run_at_ = 0;
  std::vector<uint64_t> late_;  // a heap
  uint64_t order_ = 0;
  bool started_ = false;  // order_ is one that was taken
};

}  // namespace butterfly::model
