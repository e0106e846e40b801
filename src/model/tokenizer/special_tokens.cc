#include "model/tokenizer/special_tokens.h"

#include <algorithm>
#include <string>

#include "model/tokenizer/piece_text.h"
#include "model/tokenizer/unicode_text.h"

namespace butterfly::model {
namespace {

bool is_control(const Vocabulary& vocabulary, int32_t id) {
  return vocabulary.types[static_cast<size_t>(id)] != TokenType::kUserDefined;
}

// The places of a text that may be part of a control token, asked from left to right.
class ControlPlaces {
 public:
  explicit ControlPlaces(const ControlRule& rule) : plain_(rule.plain) {}

  // How many bytes from `place` on are not plain.
  size_t allowed(size_t place) {
    while (!plain_.empty() && plain_.front().end <= place) plain_ = plain_.subspan(1);
    if (plain_.empty()) return std::string_view::npos;
    return plain_.front().begin > place ? plain_.front().begin - place : 0;
  }

 private:
  std::span<const ByteRange> plain_;
};

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

void SpecialTokens::split(const Vocabulary& vocabulary, std::string_view text, const ControlRule& control,
                          FunctionRef<void(std::string_view)> plain, FunctionRef<void(int32_t)> token) const {
  const TokenMatcher& matcher = control.parse ? all_ : user_defined_;
  ControlPlaces places(control);
  size_t done = 0, from = 0;
  bool prefixed = true;  // what begins at `done` has a space before it that is not in the text
  while (from < text.size() && !matcher.empty()) {
    TokenMatcher::Match match = matcher.find(text, from);
    if (match.id < 0) break;
    if (control.parse && is_control(vocabulary, match.id)) {
      const size_t allowed = places.allowed(match.begin);
      if (match.length > allowed) {  // forged; a token that is none, or a shorter one, may begin here too
        match.id = -1;
        matcher.prefixes(text.substr(match.begin), [&](size_t length, int32_t id) {
          if (length > allowed && is_control(vocabulary, id)) return;
          match.length = length;
          match.id = id;
        });
        if (match.id < 0) {
          from = match.begin + 1;
          continue;
        }
      }
    }
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
    bool rest_is_prefix = false;
    if (flags & kAfterSpace) {
      const bool space = begin > done && text[begin - 1] == ' ';
      if (!space && !(begin == done && prefixed)) {
        from = match.begin + 1;
        continue;
      }
      if (space) --begin;
      rest_is_prefix = space && begin == done && prefixed;  // the other space stays, alone
    }
    if (flags & kStripLeft) begin -= white_space_at_end(text.substr(done, begin - done));
    if (flags & kStripRight) end += white_space_at_front(text.substr(end));
    if (begin > done || rest_is_prefix) plain(text.substr(done, begin - done));
    token(match.id);
    prefixed = !(flags & kAfterSpace);
    done = from = end;
  }
  if (done < text.size()) plain(text.substr(done));
}

void SpecialTokens::split_prefixed(const Vocabulary& vocabulary, std::string_view text,
                                   const ControlRule& control, bool space_prefix,
                                   FunctionRef<void(std::string_view, bool)> plain,
                                   std::vector<int32_t>& ids) const {
  bool first = true, inside = false;  // inside: the text in front was normalised together with this
  const auto stretch = [&](std::string_view part) {
    plain(part, space_prefix && !inside && (first || !vocabulary.rules.prefix_first));
    first = inside = false;
  };
  const auto token = [&](int32_t id) {
    ids.push_back(id);
    first = false;
    inside = (vocabulary.flags_of(id) & kAfterSpace) != 0;
  };
  split(vocabulary, text, control, stretch, token);
}

}  // namespace butterfly::model
