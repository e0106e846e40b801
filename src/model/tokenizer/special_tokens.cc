#include "model/tokenizer/special_tokens.h"

#include <algorithm>
#include <string>

#include "model/tokenizer/unicode_text.h"

namespace butterfly::model {
namespace {

std::string with_spaces(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const bool mark = text.substr(0, kSpaceMark.size()) == kSpaceMark;
    result += mark ? ' ' : text[0];
    text.remove_prefix(mark ? kSpaceMark.size() : 1);
  }
  return result;
}

}  // namespace

SpecialTokens::SpecialTokens(const Vocabulary& v, bool space_marks) {
  for (size_t i = 0; i < v.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (v.types[i] == TokenType::kUserDefined) {
      const std::string text = space_marks ? with_spaces(v.texts[i]) : v.texts[i];
      user_defined_.add(text, id);
      all_.add(text, id);
    } else if (v.types[i] == TokenType::kControl || v.types[i] == TokenType::kUnknown) {
      all_.add(v.texts[i], id);
    }
  }
}

void SpecialTokens::split(const Vocabulary& vocabulary, std::string_view text, bool parse_special,
                          FunctionRef<void(std::string_view)> plain, FunctionRef<void(int32_t)> token) const {
  const TokenMatcher& matcher = parse_special ? all_ : user_defined_;
  size_t done = 0, from = 0;
  while (from < text.size() && !matcher.empty()) {
    const TokenMatcher::Match match = matcher.find(text, from);
    if (match.id < 0) break;
    size_t begin = match.begin, end = match.begin + match.length;
    from = end;
    const uint8_t flags = vocabulary.flags_of(match.id);
    if (flags & kSingleWord) {
      const bool inside = (begin > 0 && ends_with_word_character(text.substr(0, begin))) ||
                          begins_with_word_character(text.substr(end));
      if (inside) {
        from = match.begin + 1;
        continue;
      }
    }
    if (flags & kStripLeft) begin -= white_space_at_end(text.substr(done, begin - done));
    if (flags & kStripRight) end += white_space_at_front(text.substr(end));
    if (begin > done) plain(text.substr(done, begin - done));
    token(match.id);
    done = from = end;
  }
  if (done < text.size()) plain(text.substr(done));
}

}  // namespace butterfly::model
