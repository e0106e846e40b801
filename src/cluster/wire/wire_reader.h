// Reads the bodies of messages. What arrives is input: every length is compared with what is there and with
// what the caller allows before anything is taken or allocated.
#pragma once
#include <fmt/core.h>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/result.h"

namespace butterfly::cluster {

// Fields are read one after the other without looking at errors in between: after the first one every read
// gives zero, nothing or false, and finish() says what was wrong. So a decoder is a list of reads and one
// return:
//
//   WireReader in(body);
//   Heartbeat beat{.step = in.u64(), .busy = in.flag()};
//   if (Status bad = in.finish("heartbeat"); !bad.ok()) return bad;
//   return beat;
//
// Use what was read only after finish(). Loops over count() end by themselves: after an error it is 0, and it
// is never more than the bytes left can hold. Borrows the bytes. Of one thread.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint8_t u8() { return number<uint8_t>(); }
  uint16_t u16() { return number<uint16_t>(); }
  uint32_t u32() { return number<uint32_t>(); }
  uint64_t u64() { return number<uint64_t>(); }
  int64_t i64() { return static_cast<int64_t>(number<uint64_t>()); }
  float f32() { return std::bit_cast<float>(number<uint32_t>()); }
  double f64() { return std::bit_cast<double>(number<uint64_t>()); }
  // 0 or 1; anything else is an error, so that a value has one form on the wire.
  bool flag() {
    const uint8_t value = u8();
    if (value > 1) refuse(fmt::format("{} is neither 0 nor 1", value));
    return ok() && value == 1;
  }

  // One of the values from `first` to `last`, which the enum must all have; `first` after an error.
  template <typename Enum>
  requires std::is_enum_v<Enum> Enum enumerator(Enum first, Enum last) {
    const uint8_t value = u8();
    const auto low = static_cast<int64_t>(first), high = static_cast<int64_t>(last);
    if (ok() && (value < low || value > high))
      refuse(fmt::format("{} is not from {} to {}", value, low, high));
    return ok() ? static_cast<Enum>(value) : first;
  }

  // How many elements follow: at most `count_max`, of at least `element_bytes_min` bytes each, so that a few
  // bytes cannot ask for much memory.
  uint32_t count(uint32_t count_max, size_t element_bytes_min) {
    const uint32_t value = u32();
    if (!ok()) return 0;
    if (value > count_max)
      refuse(fmt::format("{} elements, at most {} are allowed", value, count_max));
    else if (element_bytes_min > 0 && value > left() / element_bytes_min)
      refuse(fmt::format("{} elements of {} bytes or more, {} bytes are left", value, element_bytes_min,
                         left()));
    return ok() ? value : 0;
  }

  std::string text(size_t bytes_max) {
    const auto bytes = blob(bytes_max);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // Length and bytes; borrowed from what the reader was given.
  std::span<const std::byte> blob(size_t bytes_max) {
    const uint32_t size = u32();
    if (ok() && size > bytes_max) refuse(fmt::format("{} bytes, at most {} are allowed", size, bytes_max));
    return raw(size);
  }
  // Exactly `size` bytes, borrowed; none after an error.
  std::span<const std::byte> raw(size_t size) {
    if (ok() && size > left()) refuse(fmt::format("needs {} bytes, {} are left", size, left()));
    if (!ok()) return {};
    const auto taken = bytes_.subspan(at_, size);
    at_ += size;
    return taken;
  }

  // For rules that only the caller knows ("layers end before they begin"). The first reason stays.
  void refuse(std::string why) {
    if (!ok()) return;
    error_ = fmt::format("byte {}: {}", at_, why);
    failed_ = true;
  }

  bool ok() const { return !failed_; }
  size_t left() const { return bytes_.size() - at_; }

  // Ok when every read was, and all bytes were used. kCorrupt otherwise: "[hello] byte 12: needs 8 bytes, 3
  // are left".
  Status finish(std::string_view what) {
    if (ok() && left() > 0) refuse(fmt::format("{} bytes too many", left()));
    return ok() ? Status() : Status(Errc::kCorrupt, fmt::format("[{}] {}", what, error_));
  }

 private:
  template <std::unsigned_integral T>
  T number() {
    const auto little = raw(sizeof(T));
    T value = 0;
    for (size_t i = 0; i < little.size(); ++i)
      value = static_cast<T>(value | static_cast<T>(little[i]) << (8 * i));
    return value;
  }

  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool failed_ = false;
  std::string error_;
};

}  // namespace butterfly::cluster
