#include "model/chat_template/lexer.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "model/chat_template/python_text.h"
#include "model/tokenizer/unicode_text.h"

namespace butterfly::model::chat_template {

namespace {

// Longest first.
constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_byte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || (c & 0x80) != 0;
}

// One kind of newline, and none at the end.
std::string unified_newlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(unified_newlines(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) text_and_tag();
    add(TokenKind::kEnd, "end of the template");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  char peek(size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
  void advance(size_t bytes) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + bytes), '\n'));
    line_start_ = bytes > 0 && source_[at_ + bytes - 1] == '\n';
    at_ += bytes;
  }
  void skip_space() { advance(rest().size() - python_strip_left(rest()).size()); }
  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  // The text before a tag at `tag`, which has the sign `sign` after its two characters.
  void add_text(size_t tag, char sign, bool is_output) {
    std::string_view text = std::string_view(source_).substr(at_, tag - at_);
    if (sign == '-') {
      text = python_strip_right(text);
    } else if (sign != '+' && !is_output) {
      const size_t newline = text.rfind('\n');
      const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
      if ((line > 0 || line_start_) && python_strip_left(text.substr(line)).empty())
        text = text.substr(0, line);
    }
    if (!text.empty()) add(TokenKind::kText, std::string(text));
    advance(tag - at_);
  }

  static char sign_of(char c) { return c == '-' || c == '+' ? c : '\0'; }

  void text_and_tag() {
    size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        add(TokenKind::kText, std::string(rest()));
        advance(rest().size());
        return;
      }
      const char second = source_[tag + 1];
      if (second == '{' || second == '%' || second == '#') break;
      ++tag;
    }
    const char second = source_[tag + 1];
    const char sign = sign_of(tag + 2 < source_.size() ? source_[tag + 2] : '\0');
    add_text(tag, sign, second == '{');
    const int line = line_;
    if (second == '%' && raw_block()) return;
    advance(sign == '\0' ? 2 : 3);
    if (second == '#') return comment(line);
    add(second == '{' ? TokenKind::kOutputBegin : TokenKind::kTagBegin, second == '{' ? "{{" : "{%");
    tag_tokens(second == '{');
  }

  // After the end of a tag or a comment of which `length` bytes are here: what else it takes.
  void finish_tag(char sign, size_t length, bool takes_newline) {
    advance(length);
    if (sign == '-') {
      skip_space();
    } else if (sign != '+' && takes_newline && peek() == '\n') {
      advance(1);
    }
  }

  void comment(int line) {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos)
      fail(Errc::kInvalidArgument, "line {}: the comment has no end, expected #}}", line);
    const char sign = end > at_ ? sign_of(source_[end - 1]) : '\0';
    advance(end - at_);
    finish_tag(sign, 2, true);
  }

  // If a tag of the word begins at `place`: the place after it, and its signs.
  struct WordTag {
    size_t end;
    char first;
    char last;
  };
  bool word_tag(size_t place, std::string_view word, WordTag& tag) const {
    const std::string_view all = source_;
    size_t i = place + 2;
    tag.first = i < all.size() ? sign_of(all[i]) : '\0';
    if (tag.first != '\0') ++i;
    const auto skip = [&] { i = all.size() - python_strip_left(all.substr(std::min(i, all.size()))).size(); };
    skip();
    if (!all.substr(i).starts_with(word)) return false;
    i += word.size();
    skip();
    tag.last = i < all.size() ? sign_of(all[i]) : '\0';
    if (tag.last != '\0') ++i;
    if (!all.substr(i).starts_with("%}")) return false;
    tag.end = i + 2;
    return true;
  }

  bool raw_block() {
    WordTag tag;
    if (!word_tag(at_, "raw", tag) || tag.last == '+') return false;
    const int line = line_;
    advance(tag.end - at_);
    if (tag.last == '-') skip_space();
    for (size_t place = at_; (place = source_.find("{%", place)) != std::string::npos; ++place) {
      WordTag end;
      if (!word_tag(place, "endraw", end)) continue;
      add_text(place, end.first, false);
      finish_tag(end.last, end.end - at_, true);
      return true;
    }
    fail(Errc::kInvalidArgument, "line {}: the raw block has no end, expected {{% endraw %}}", line);
  }

  void tag_tokens(bool is_output) {
    const int begin = line_;
    const std::string_view end = is_output ? "}}" : "%}";
    std::string open;  // brackets that wait for their end
    while (true) {
      skip_space();
      if (at_ >= source_.size())
        fail(Errc::kInvalidArgument, "line {}: the tag has no end, expected {}", begin, end);
      const char sign = sign_of(peek());
      const size_t length = sign == '\0' ? 0 : 1;
      if (open.empty() && rest().substr(length).starts_with(end) && !(is_output && sign == '+')) {
        add(is_output ? TokenKind::kOutputEnd : TokenKind::kTagEnd, std::string(end));
        finish_tag(sign, length + 2, !is_output);
        return;
      }
      token(open);
    }
  }

  void token(std::string& open) {
    const char c = peek();
    if (is_digit(c)) return number();
    if (is_name_byte(c)) {
      size_t length = 1;
      while (is_name_byte(peek(length))) ++length;
      add(TokenKind::kName, std::string(rest().substr(0, length)));
      return advance(length);
    }
    if (c == '"' || c == '\'') return quoted(c);
    for (const std::string_view op : kOperators) {
      if (!rest().starts_with(op)) continue;
      if (op == "(" || op == "[" || op == "{") open += op;
      if (op == ")" || op == "]" || op == "}") {
        const char expected = op == ")" ? '(' : op == "]" ? '[' : '{';
        if (open.empty() || open.back() != expected)
          fail(Errc::kInvalidArgument, "line {}: found '{}' without its beginning", line_, op);
        open.pop_back();
      }
      add(TokenKind::kOperator, std::string(op));
      return advance(op.size());
    }
    fail(Errc::kInvalidArgument, "line {}: found the character '{}' in a tag", line_,
         rest().substr(0, front_code_point(rest()).length));
  }

  void number() {
    size_t i = 0;
    std::string digits;
    const auto take_digits = [&] {
      while (is_digit(peek(i)) || (peek(i) == '_' && is_digit(peek(i + 1)))) {
        if (peek(i) != '_') digits += peek(i);
        ++i;
      }
    };
    take_digits();
    TokenKind kind = TokenKind::kInteger;
    if (!tokens_.empty() && tokens_.back().is_operator(".")) {  // x.0.1 is an item of an item
      add(kind, digits);
      return advance(i);
    }
    if (peek(i) == '.' && is_digit(peek(i + 1))) {
      kind = TokenKind::kFloat;
      digits += peek(i++);
      take_digits();
    }
    const size_t signs = peek(i + 1) == '+' || peek(i + 1) == '-' ? 1 : 0;
    if ((peek(i) == 'e' || peek(i) == 'E') && is_digit(peek(i + 1 + signs))) {
      kind = TokenKind::kFloat;
      digits.append(rest().substr(i, 1 + signs));
      i += 1 + signs;
      take_digits();
    }
    add(kind, digits);
    advance(i);
  }

  void quoted(char quote) {
    size_t end = 1;
    while (at_ + end < source_.size() && peek(end) != quote) end += peek(end) == '\\' ? 2 : 1;
    if (at_ + end >= source_.size()) fail(Errc::kInvalidArgument, "line {}: the string has no end", line_);
    add(TokenKind::kString, python_unescape(rest().substr(1, end - 1), line_));
    advance(end + 1);
  }

  const std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_start_ = true;  // whether at_ is at the beginning of a line, as far as the last tag tells
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace butterfly::model::chat_template
