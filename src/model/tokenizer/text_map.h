// A hash map from texts to token ids that is filled once and then read often. Borrows the texts.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace butterfly::model {

// Reads are const and thread-safe. At most half full; slots keep 32 bits of the hash, so that a probe rarely
// touches a text that is not the one looked for.
class TextMap {
 public:
  explicit TextMap(size_t size_max = 0) { slots_.resize(std::bit_ceil(size_max * 2 + 2)); }

  // The id of `text`, -1 if it is not there.
  int32_t find(std::string_view text) const {
    const uint64_t hash = hash_of(text);
    for (size_t i = hash & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[i];
      if (slot.id < 0) return -1;
      if (slot.check == static_cast<uint32_t>(hash >> 32) && slot.length == text.size() &&
          std::memcmp(slot.text, text.data(), text.size()) == 0)
        return slot.id;
    }
  }

  // Adds or replaces. `text` must outlive the map.
  void set(std::string_view text, int32_t id) {
    if ((size_ + 1) * 2 > slots_.size()) grow();
    place(hash_of(text), {static_cast<uint32_t>(hash_of(text) >> 32), id, text.data(), text.size()});
  }

  size_t size() const { return size_; }

 private:
  struct Slot {
    uint32_t check = 0;
    int32_t id = -1;  // -1: free
    const char* text = nullptr;
    size_t length = 0;
  };

  static uint64_t hash_of(std::string_view text) {
    constexpr uint64_t kMix = 0x9e3779b97f4a7c15u;
    uint64_t hash = text.size() * kMix;
    const char* at = text.data();
    size_t left = text.size();
    for (; left >= 8; at += 8, left -= 8) {
      uint64_t word;
      std::memcpy(&word, at, 8);
      hash = std::rotl((hash ^ word) * kMix, 29);
    }
    if (left > 0) {
      uint64_t word = 0;
      std::memcpy(&word, at, left);
      hash = std::rotl((hash ^ word) * kMix, 29);
    }
    hash ^= hash >> 32;
    return hash * kMix ^ (hash >> 29);
  }
  void place(uint64_t hash, const Slot& slot) {
    size_t i = hash & (slots_.size() - 1);
    while (slots_[i].id >= 0 &&
           std::string_view(slots_[i].text, slots_[i].length) != std::string_view(slot.text, slot.length))
      i = (i + 1) & (slots_.size() - 1);
    size_ += slots_[i].id < 0;
    slots_[i] = slot;
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    size_ = 0;
    for (const Slot& slot : old)
      if (slot.id >= 0) place(hash_of({slot.text, slot.length}), slot);
  }

  std::vector<Slot> slots_;
  size_t size_ = 0;
};

}  // namespace butterfly::model
