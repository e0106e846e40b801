// Text of tokens as they come, never cut inside a character.
#pragma once
#include <cstdint>
#include <string>

#include "model/tokenizer/tokenizer.h"

namespace butterfly::model {

// Borrows its tokenizer. What push() and flush() return, put together, is exactly the bytes of decode(). One
// thread.
class TokenStream {
 public:
  // `at_text_start`: no text comes before these tokens, so a dummy prefix space is left out as decode() does.
  explicit TokenStream(const Tokenizer& tokenizer, bool at_text_start = false, DecodeOptions options = {})
      : tokenizer_(tokenizer),
        strip_space_(at_text_start && tokenizer.adds_space_prefix()),
        options_(options) {}

  // The text that is complete with this token: whole characters, or bytes that can never become one.
  std::string push(int32_t id);
  // What is left at the end: the beginning of a character that never came.
  std::string flush();

 private:
  const Tokenizer& tokenizer_;
  bool strip_space_;
  DecodeOptions options_;
  std::string held_;
};

}  // namespace butterfly::model
