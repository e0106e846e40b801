// Texts that know which of their bytes the template wrote itself and which came with a request: only the
// former may become control tokens (see chat_prompt.h).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/byte_range.h"

namespace butterfly::model::chat_template {

// Input is the default everywhere: an operation that forgets where its bytes are from loses control tokens
// of the template, which a test sees, and never lets a user write one.
enum class Origin : uint8_t { kInput, kTemplate };

// Part of a Text. Borrows it; free to copy.
struct TextView {
  std::string_view bytes;
  const Origin* origins = nullptr;  // one per byte; null: all are `all`
  Origin all = Origin::kInput;

  TextView() = default;
  TextView(std::string_view text, Origin origin) : bytes(text), all(origin) {}

  size_t size() const { return bytes.size(); }
  bool empty() const { return bytes.empty(); }
  Origin at(size_t place) const { return origins == nullptr ? all : origins[place]; }
  // The template's, if every byte is.
  Origin origin() const;
  TextView substr(size_t from, size_t count = std::string_view::npos) const;
  // `inside`: a view into `bytes`, as functions on plain texts return it. Anything else counts as input.
  TextView part(std::string_view inside) const;
};

// Owns its bytes. Texts of one origin, which most are, cost no more than their bytes; mixed ones twice that.
// One thread appends; then any may read.
class Text {
 public:
  Text() = default;
  explicit Text(std::string bytes, Origin origin = Origin::kInput) : bytes_(std::move(bytes)), all_(origin) {}
  explicit Text(TextView view) { append(view); }
  // Views refer to one: it is moved or cloned by name (Text(text.view())).
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  Text(Text&&) noexcept = default;
  Text& operator=(Text&&) noexcept = default;

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  size_t memory() const { return bytes_.size() + origins_.size(); }
  TextView view() const;
  TextView part(std::string_view inside) const { return view().part(inside); }

  // Not with a view of this text.
  void append(TextView view);
  void append(std::string_view bytes, Origin origin) { append(TextView(bytes, origin)); }

  // The stretches that came with a request, in order.
  std::vector<ByteRange> input_ranges() const;
  std::string take_bytes() && { return std::move(bytes_); }

 private:
  std::string bytes_;
  std::vector<Origin> origins_;  // empty while all are alike
  Origin all_ = Origin::kInput;
};

}  // namespace butterfly::model::chat_template
