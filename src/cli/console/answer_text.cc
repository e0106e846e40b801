#include "cli/console/answer_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>

namespace butterfly::cli {
namespace {

constexpr std::string_view kUnknown = "\xEF\xBF\xBD";
constexpr const char* kPlain = "\x1b[0m";
constexpr const char* kBold = "\x1b[1m";
constexpr const char* kCode = "\x1b[36m";
constexpr const char* kHeading = "\x1b[1;35m";
constexpr const char* kFence = "\x1b[2m";

// Bytes of the character that begins with this one; 1 for what begins none.
size_t length_of(unsigned char first) {
  if (first < 0xC0 || first >= 0xF8) return 1;
  return first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

int32_t code_of(std::string_view character) {
  utf8proc_int32_t code = -1;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(character.data()),
                   static_cast<utf8proc_ssize_t>(character.size()), &code);
  return code;
}

// Control characters, and marks that turn the direction of what follows.
bool steers(int32_t code) {
  return code < 0 || (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7F && code < 0xA0) ||
         (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

bool may_begin_line(std::string_view head) {
  const size_t at = head.find_first_not_of(' ');
  if (at == std::string_view::npos) return head.size() < 12;
  const std::string_view mark = head.substr(at);
  const auto all = [&](char c) { return mark.find_first_not_of(c) == std::string_view::npos; };
  if (all('#') && mark.size() <= 6) return true;
  if (all('`') && mark.size() <= 3) return true;
  if (mark == "-" || mark == "*" || mark == "+") return true;
  const size_t digits = std::min(mark.find_first_not_of("0123456789"), mark.size());
  return digits > 0 && digits <= 3 && (digits == mark.size() || mark.substr(digits) == ".");
}

}  // namespace

void AnswerText::add(std::string_view piece) {
  rest_ += piece;
  size_t at = 0;
  while (at < rest_.size()) {
    const size_t length = length_of(static_cast<unsigned char>(rest_[at]));
    if (at + length > rest_.size()) break;
    take(std::string_view(rest_).substr(at, length));
    at += length;
  }
  rest_.erase(0, at);
}

void AnswerText::finish() {
  if (!head_.empty()) {
    const std::string head = std::move(head_);
    head_.clear();
    at_line_begin_ = false;
    for (const char c : head) put(std::string_view(&c, 1));
  }
  end_marks();
  if (!rest_.empty()) put(kUnknown);
  end_word();
  if (bold_ || code_ || heading_ || fence_) write_(kPlain);
  rest_.clear();
  bold_ = code_ = heading_ = fence_ = info_ = false;
  column_ = indent_ = 0;
  at_line_begin_ = true;
}

// True while the beginning of a line is not decided yet, or when it was a mark and is done with.
bool AnswerText::begins_line(std::string_view character) {
  if (!at_line_begin_ || !options_.colour) return false;
  head_ += character;
  if (may_begin_line(head_)) return true;
  const std::string head = std::move(head_);
  head_.clear();
  at_line_begin_ = false;
  const size_t at = std::min(head.find_first_not_of(' '), head.size());
  if (head.substr(at, 3) == "```") {
    fence_ = !fence_;
    info_ = true;
    style(fence_ ? kFence : kFence);
    for (const char c : head.substr(0, head.size() - character.size())) put(std::string_view(&c, 1));
  } else if (!fence_ && head[at] == '#' && character == " ") {
    heading_ = true;
    set_styles();
    return true;
  } else {
    const std::string before = head.substr(0, head.size() - character.size());
    const bool item =
        !fence_ && character == " " && at < before.size() && before[at] != '#' && before[at] != '`';
    if (item) indent_ = before.size() + 1;
    // A star that is no item's begins bold text.
    for (const char c : before) {
      if (c == '*' && !item && !fence_)
        take_mark(c);
      else if (c == '`' && !fence_)
        take_mark(c);
      else
        put(std::string_view(&c, 1));
    }
  }
  return false;
}

void AnswerText::take(std::string_view character) {
  const int32_t code = code_of(character);
  if (code == '\r') return;
  if (steers(code)) return put(kUnknown);
  if (code == '\n') {
    if (!head_.empty()) {
      const std::string head = std::move(head_);
      head_.clear();
      if (head.find("```") != std::string::npos) {
        fence_ = !fence_;
        style(kFence);
        for (const char c : head) put(std::string_view(&c, 1));
        end_word();
        write_(kPlain);
      } else {
        for (const char c : head) put(std::string_view(&c, 1));
      }
    }
    return new_line();
  }
  if (begins_line(character)) return;
  if (options_.colour && !fence_ && !info_ && (code == '*' || code == '`'))
    return take_mark(static_cast<char>(code));
  if (marks_ > 0) {
    // "2 ** 3" and "a * b" are no marks.
    if (mark_ == '*' && !bold_ && character == " ") {
      const std::string stars(marks_, '*');
      marks_ = 0;
      for (const char c : stars) put(std::string_view(&c, 1));
    } else {
      end_marks();
    }
  }
  put(character);
}

void AnswerText::take_mark(char mark) {
  if (marks_ > 0 && mark_ != mark) end_marks();
  if (mark == '*' && code_) return put("*");
  mark_ = mark;
  ++marks_;
}

void AnswerText::end_marks() {
  const size_t count = std::exchange(marks_, 0);
  if (count == 0) return;
  if (mark_ == '*' && count == 2) {
    bold_ = !bold_;
    set_styles();
  } else if (mark_ == '`' && count == 1) {
    code_ = !code_;
    set_styles();
  } else {
    for (size_t i = 0; i < count; ++i) put(std::string_view(&mark_, 1));
  }
}

void AnswerText::put(std::string_view character) {
  const bool wraps = options_.width > 0 && !fence_;
  if (wraps && character == " ") {
    end_word();
    if (column_ + 1 < options_.width) {
      write_(" ");
      ++column_;
    }
    return;
  }
  if (character == "\t") {
    for (int i = 0; i < 4; ++i) put(" ");
    return;
  }
  word_ += character;
  word_columns_ += static_cast<size_t>(std::max(0, utf8proc_charwidth(code_of(character))));
  at_line_begin_ = false;
  // Chinese has no blanks and may be cut anywhere. A word longer than a line, an address say, is left to the
  // terminal, so that it can be copied whole.
  if (!wraps || code_of(character) >= 0x2E80) {
    end_word();
  } else if (indent_ + word_columns_ >= options_.width) {
    end_word();
    glued_ = true;
  }
}

void AnswerText::end_word() {
  if (word_.empty()) return;
  const bool whole = !std::exchange(glued_, false);
  if (whole && options_.width > 0 && !fence_ && column_ > indent_ &&
      column_ + word_columns_ > options_.width) {
    write_("\n" + std::string(indent_, ' '));
    column_ = indent_;
  }
  write_(word_);
  column_ += word_columns_;
  if (options_.width > 0 && column_ > options_.width) column_ %= options_.width;
  word_.clear();
  word_columns_ = 0;
}

void AnswerText::new_line() {
  end_marks();
  end_word();
  if (info_ && !fence_) write_(kPlain);
  if (bold_ || code_ || heading_) write_(kPlain);
  bold_ = code_ = heading_ = info_ = false;
  write_("\n");
  if (fence_ && options_.colour) write_(kCode);
  column_ = indent_ = 0;
  at_line_begin_ = true;
}

void AnswerText::style(const char* codes) { word_ += codes; }

void AnswerText::set_styles() {
  style(kPlain);
  if (heading_) style(kHeading);
  if (bold_) style(kBold);
  if (code_) style(kCode);
}

}  // namespace butterfly::cli
