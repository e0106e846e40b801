#include "model/tokenizer/token_stream.h"

#include <utility>

#include "base/utf8.h"

namespace butterfly::model {

std::string TokenStream::push(int32_t id) {
  const TokenType kind = tokenizer_.type(id);
  if (kind == TokenType::kControl || kind == TokenType::kUnknown) {
    if (kind == TokenType::kUnknown) strip_space_ = false;
    if (options_.show_special) held_ += tokenizer_.token_text(id);
  } else {
    std::string_view bytes = tokenizer_.piece(id);
    if (strip_space_ && !bytes.empty() && bytes.front() == ' ') bytes.remove_prefix(1);
    strip_space_ = false;
    held_ += bytes;
  }
  const size_t whole = utf8_whole_bytes(held_);
  std::string ready = held_.substr(0, whole);
  held_.erase(0, whole);
  return ready;
}

std::string TokenStream::flush() { return std::exchange(held_, {}); }

}  // namespace butterfly::model
