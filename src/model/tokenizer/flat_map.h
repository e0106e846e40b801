// A hash map from u64 to int32 that is filled once and then read often: one array, linear probing.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace butterfly::model {

// Values are >= 0. Reads are const and thread-safe. At most half full, so a miss ends after a probe or two.
class FlatMap {
 public:
  FlatMap() { slots_.resize(2); }

  // The value at `key`, -1 if there is none.
  int32_t find(uint64_t key) const {
    for (size_t i = home(key);; i = (i + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[i];
      if (slot.value < 0 || slot.key == key) return slot.value;
    }
  }

  // Brings the place of `key` nearer, for a find() soon.
  void prefetch(uint64_t key) const { __builtin_prefetch(&slots_[home(key)]); }

  // Makes room for `count` values, so that adding them moves nothing.
  void reserve(size_t count) {
    while (count * 2 > slots_.size()) grow();
  }

  // Adds or replaces.
  void set(uint64_t key, int32_t value) {
    if ((size_ + 1) * 2 > slots_.size()) grow();
    place(key, value);
  }

  size_t size() const { return size_; }

 private:
  struct Slot {
    uint64_t key = 0;
    int32_t value = -1;  // -1: free
  };

  size_t home(uint64_t key) const {
    return static_cast<size_t>(key * 0x9e3779b97f4a7c15u >> shift_) & (slots_.size() - 1);
  }
  void place(uint64_t key, int32_t value) {
    size_t i = home(key);
    while (slots_[i].value >= 0 && slots_[i].key != key) i = (i + 1) & (slots_.size() - 1);
    size_ += slots_[i].value < 0;
    slots_[i] = {key, value};
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    shift_ = 64 - std::countr_zero(slots_.size());
    size_ = 0;
    for (const Slot& slot : old)
      if (slot.value >= 0) place(slot.key, slot.value);
  }

  std::vector<Slot> slots_;
  size_t size_ = 0;
  int shift_ = 63;
};

}  // namespace butterfly::model
