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

// A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, "Faster algorithms for the shortest path problem", 1990):
// keys lie in buckets by the highest bit in which they differ from the last key taken, and a bucket is dealt
// out to lower ones when its turn comes. A key moves down at most 64 times, through memory in order, where a
// binary heap of a million keys misses the cache at every level. Keys below the last one taken, which such a
// heap cannot hold, are few here and go to a binary heap.
class JoinQueue {
 public:
  void clear() {
    for (auto& bucket : buckets_) bucket.clear();
    early_.clear();
    last_ = 0;
  }

  void push(uint64_t key) {
    if (key >= last_) {
      buckets_[bucket_of(key)].push_back(key);
    } else {
      early_.push_back(key);
      std::push_heap(early_.begin(), early_.end(), std::greater<>());
    }
  }

  // Takes the smallest key; false if there is none.
  bool pop(uint64_t& key) {
    if (!early_.empty()) {
      std::pop_heap(early_.begin(), early_.end(), std::greater<>());
      key = early_.back();
      early_.pop_back();
      return true;
    }
    if (buckets_[0].empty() && !refill()) return false;
    key = last_;
    buckets_[0].pop_back();
    return true;
  }

 private:
  size_t bucket_of(uint64_t key) const { return static_cast<size_t>(std::bit_width(key ^ last_)); }

  // Puts the smallest key into bucket 0.
  bool refill() {
    size_t lowest = 1;
    while (lowest < buckets_.size() && buckets_[lowest].empty()) ++lowest;
    if (lowest == buckets_.size()) return false;
    spare_.swap(buckets_[lowest]);
    last_ = *std::min_element(spare_.begin(), spare_.end());
    for (const uint64_t key : spare_) buckets_[bucket_of(key)].push_back(key);
    spare_.clear();
    return true;
  }

  std::array<std::vector<uint64_t>, 65> buckets_;
  std::vector<uint64_t> spare_;
  std::vector<uint64_t> early_;  // below last_
  uint64_t last_ = 0;
};

}  // namespace butterfly::model
