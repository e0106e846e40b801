// Reads little-endian values from bytes that nobody vouches for. Every read is checked; a short file is an
// Error.
#pragma once
#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"

namespace butterfly::model {

static_assert(std::endian::native == std::endian::little,
              "file readers copy little-endian values as they are");

// A cursor over borrowed bytes. `place` says where we are ("key llama.block_count"); messages begin with file
// and place.
//
// Bytes leave the file only by copies made inside MappedFile::guard, one at a time: a file that shrinks under
// us is an Error kIo, and nothing that owns memory is on the stack that the guard jumps out of.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string file) : bytes_(bytes), file_(std::move(file)) {}

  size_t at() const { return at_; }
  size_t remaining() const { return bytes_.size() - at_; }
  const std::string& file() const { return file_; }
  void set_place(std::string place) { place_ = std::move(place); }
  const std::string& place() const { return place_; }

  // `what` names the field: "value type".
  template <typename T>
  T read(std::string_view what) {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);
    T value;
    check(sizeof(T), what);
    copy(&value, sizeof(T));
    return value;
  }

  std::string read_string(uint64_t length, std::string_view what) {
    check(length, what);
    std::string text(static_cast<size_t>(length), '\0');
    copy(text.data(), text.size());
    return text;
  }

  template <typename T>
  void read_into(std::span<T> to, std::string_view what) {
    static_assert(std::is_arithmetic_v<T>);
    check(to.size_bytes(), what);
    copy(to.data(), to.size_bytes());
  }

  // Throws unless `count` more bytes are there.
  void check(uint64_t count, std::string_view what) const {
    if (count > remaining()) {
      fail(Errc::kCorrupt, "{}: {}: {} at byte {}: expected {} bytes, found {} before the end of the file",
           file_, place_, what, at_, count, remaining());
    }
  }

  // kCorrupt: "file: place: " + text + " (at byte N)".
  template <typename... Args>
  [[noreturn]] void corrupt(fmt::format_string<Args...> format, Args&&... args) const {
    fail(Errc::kCorrupt, "{}: {}: {} (at byte {})", file_, place_,
         fmt::format(format, std::forward<Args>(args)...), at_);
  }

 private:
  void copy(void* to, size_t count) {
    const std::byte* from = bytes_.data() + at_;
    if (count > 0) MappedFile::guard([=] { std::memcpy(to, from, count); });
    at_ += count;
  }

  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  std::string file_;
  std::string place_ = "header";
};

// The first bytes of a mapped file, at most `count_max`, as a copy that cannot vanish.
inline std::vector<std::byte> copy_head(std::span<const std::byte> bytes, size_t count_max) {
  std::vector<std::byte> head(std::min(bytes.size(), count_max));
  std::byte* to = head.data();
  if (!head.empty()) MappedFile::guard([&, to] { std::memcpy(to, bytes.data(), head.size()); });
  return head;
}

}  // namespace butterfly::model
