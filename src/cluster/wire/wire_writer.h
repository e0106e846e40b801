// Writes the bodies of messages: little-endian numbers, and texts with their length before them. Its other
// half is wire_reader.h.
#pragma once
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"

namespace butterfly::cluster {

// Appends little-endian numbers, texts and lists, which a WireReader reads back in the same order. Of one
// thread. Texts and lists beyond their bounds are our own mistake: BF_CHECK.
class WireWriter {
 public:
  WireWriter() = default;
  explicit WireWriter(size_t bytes_expected) { bytes_.reserve(bytes_expected); }

  void u8(uint8_t value) { number(value); }
  void u16(uint16_t value) { number(value); }
  void u32(uint32_t value) { number(value); }
  void u64(uint64_t value) { number(value); }
  void i64(int64_t value) { number(static_cast<uint64_t>(value)); }
  void f32(float value) { number(std::bit_cast<uint32_t>(value)); }
  void f64(double value) { number(std::bit_cast<uint64_t>(value)); }
  void flag(bool value) { number<uint8_t>(value ? 1 : 0); }

  // One byte: enums on the wire have fewer than 256 values.
  template <typename Enum>
  requires std::is_enum_v<Enum>
  void enumerator(Enum value) {
    const auto plain = static_cast<std::underlying_type_t<Enum>>(value);
    BF_CHECK(std::in_range<uint8_t>(plain)) << "[wire] enumerator " << static_cast<int64_t>(plain);
    u8(static_cast<uint8_t>(plain));
  }

  // How many elements follow.
  void count(size_t value) {
    BF_CHECK(value <= std::numeric_limits<uint32_t>::max()) << "[wire] " << value << " elements";
    u32(static_cast<uint32_t>(value));
  }
  // Length, then the bytes.
  void text(std::string_view value) { blob(std::as_bytes(std::span(value))); }
  void blob(std::span<const std::byte> value) {
    count(value.size());
    raw(value);
  }
  // The bytes alone: the reader knows how many.
  void raw(std::span<const std::byte> value) { bytes_.insert(bytes_.end(), value.begin(), value.end()); }

  size_t size() const { return bytes_.size(); }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::vector<std::byte> take() && { return std::move(bytes_); }
  void clear() { bytes_.clear(); }  // keeps the memory

 private:
  template <std::unsigned_integral T>
  void number(T value) {
    std::byte little[sizeof(T)];
    for (size_t i = 0; i < sizeof(T); ++i) little[i] = static_cast<std::byte>(value >> (8 * i));
    raw(little);
  }

  std::vector<std::byte> bytes_;
};

}  // namespace butterfly::cluster
