// Reads a source from its front: what the parsers of grammars and of regular expressions share.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace butterfly::model::grammar {

// Base of a parser: borrows the text, and stands at one place of it. One thread. Errors name the place.
class SourceReader {
 protected:
  explicit SourceReader(std::string_view text) : text_(text) {}
  virtual ~SourceReader() = default;

  // The place that has been read to, for messages.
  virtual std::string where() const = 0;
  [[noreturn]] void bad(std::string_view what) const;          // kInvalidArgument
  [[noreturn]] void unsupported(std::string_view what) const;  // kUnsupported
  [[noreturn]] void too_large(std::string_view what) const;    // kOutOfMemory

  bool more() const { return at_ < text_.size(); }
  char next() const { return text_[at_]; }  // there must be one
  bool sees(std::string_view word) const { return text_.substr(at_).starts_with(word); }
  bool take(std::string_view word) {
    const bool found = sees(word);
    if (found) at_ += word.size();
    return found;
  }

  // A count of repetitions in decimal digits; nothing if there is no digit.
  std::optional<uint32_t> count();
  // Exactly so many hexadecimal digits.
  uint32_t hex(int digits);
  // One character of UTF-8; there must be a byte.
  uint32_t code_point();

  const std::string_view text_;
  size_t at_ = 0;
};

}  // namespace butterfly::model::grammar
