// Cuts a text at the tokens that are matched literally, before anything else looks at it.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "model/tokenizer/control_rule.h"
#include "model/tokenizer/token_matcher.h"
#include "model/tokenizer/vocabulary.h"

namespace butterfly::model {

// User-defined tokens always; control and unknown tokens only where the rule says so: what a user typed must
// not be able to forge them. A token may swallow the white space before or after it
// (TokenFlag), as Hugging Face's lstrip and rstrip. Immutable after the constructor: any thread.
class SpecialTokens {
 public:
  SpecialTokens() = default;
  // `space_marks`: U+2581 in user-defined tokens is a space.
  explicit SpecialTokens(const Vocabulary& vocabulary, bool space_marks = false);

  // Calls plain() and token() in the order of the text. Borrows the vocabulary's flags for the call.
  void split(const Vocabulary& vocabulary, std::string_view text, const ControlRule& control,
             FunctionRef<void(std::string_view)> plain, FunctionRef<void(int32_t)> token) const;
  // As SentencePiece reads a text: every stretch of plain text begins with a space that is not in it, or, by
  // the vocabulary's rules, only one that begins the text. Calls plain(stretch, prefixed); tokens go to
  // `ids`.
  void split_prefixed(const Vocabulary& vocabulary, std::string_view text, const ControlRule& control,
                      bool space_prefix, FunctionRef<void(std::string_view, bool)> plain,
                      std::vector<int32_t>& ids) const;

 private:
  TokenMatcher user_defined_;
  TokenMatcher all_;
};

}  // namespace butterfly::model
