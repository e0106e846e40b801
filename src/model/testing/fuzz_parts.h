// For fuzz targets whose input is two files: a JSON text, a zero byte, and a binary file.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace butterfly::model {

// The bytes after the text are copied to where a mapped file would have them: aligned.
class FuzzParts {
 public:
  FuzzParts(const uint8_t* data, size_t size, bool with_text) {
    const uint8_t* end = data + size;
    const uint8_t* zero = with_text ? std::find(data, end, uint8_t{0}) : data;
    text_ = {reinterpret_cast<const char*>(data), static_cast<size_t>(zero - data)};
    const uint8_t* rest = with_text && zero != end ? zero + 1 : zero;
    count_ = static_cast<size_t>(end - rest);
    words_.resize(count_ / sizeof(uint64_t) + 1);
    std::copy(rest, end, reinterpret_cast<uint8_t*>(words_.data()));
  }

  std::string_view text() const { return text_; }
  std::span<const std::byte> file() const { return std::as_bytes(std::span(words_)).first(count_); }

 private:
  std::string_view text_;
  std::vector<uint64_t> words_;
  size_t count_ = 0;
};

}  // namespace butterfly::model
