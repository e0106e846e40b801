#include "model/tokenizer/unicode_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/utf8.h"

namespace butterfly::model {
namespace {

// utf8proc refuses text that is no UTF-8, so it gets the valid stretches only.
std::string normalize(std::string_view text, utf8proc_option_t form) {
  std::string result;
  while (!text.empty()) {
    size_t valid = 0;
    bool ascii = true;
    while (valid < text.size()) {
      const size_t length = utf8_length(text.substr(valid, 4));
      if (length == 0) break;
      ascii &= length == 1;
      valid += length;
    }
    if (ascii) {
      result += text.substr(0, valid);
    } else {
      utf8proc_uint8_t* out = nullptr;
      const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                     static_cast<utf8proc_ssize_t>(valid), &out,
                                     static_cast<utf8proc_option_t>(UTF8PROC_STABLE | form));
      const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owned(out, &std::free);
      if (size < 0) fail(Errc::kOutOfMemory, "normal form of a text: {}", utf8proc_errmsg(size));
      result.append(reinterpret_cast<const char*>(out), static_cast<size_t>(size));
    }
    text.remove_prefix(valid);
    while (!text.empty() && utf8_length(text.substr(0, 4)) == 0) {
      result += text[0];
      text.remove_prefix(1);
    }
  }
  return result;
}

utf8proc_category_t category(uint32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

size_t last_character(std::string_view text) {
  size_t back = 1;
  while (back < std::min<size_t>(4, text.size()) &&
         (static_cast<unsigned char>(text[text.size() - back]) & 0xc0) == 0x80)
    ++back;
  return utf8_length(text.substr(text.size() - back)) == back ? back : 1;
}

}  // namespace

CodePoint front_code_point(std::string_view text) {
  const size_t length = utf8_length(text.substr(0, 4));
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  switch (length) {
    case 1:
      return {byte(0), 1};
    case 2:
      return {(byte(0) & 0x1f) << 6 | (byte(1) & 0x3f), 2};
    case 3:
      return {(byte(0) & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f), 3};
    case 4:
      return {(byte(0) & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f), 4};
    default:
      return {0xfffd, 1};
  }
}

void append_utf8(uint32_t c, std::string& text) {
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xc0 | c >> 6);
    text += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    text += static_cast<char>(0xe0 | c >> 12);
    text += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    text += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    text += static_cast<char>(0xf0 | c >> 18);
    text += static_cast<char>(0x80 | (c >> 12 & 0x3f));
    text += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    text += static_cast<char>(0x80 | (c & 0x3f));
  }
}

std::string to_nfc(std::string_view text) { return normalize(text, UTF8PROC_COMPOSE); }
std::string to_nfd(std::string_view text) { return normalize(text, UTF8PROC_DECOMPOSE); }

bool is_white_space(uint32_t c) {
  return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

bool is_punctuation(uint32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

bool is_symbol(uint32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_SM && kind <= UTF8PROC_CATEGORY_SO;
}

bool is_control(uint32_t c) {
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_CO ||
         kind == UTF8PROC_CATEGORY_CN;
}

bool is_mark(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_MN; }

bool is_word_character(uint32_t c) {
  const auto kind = category(c);
  return (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_ND) || kind == UTF8PROC_CATEGORY_PC;
}

uint32_t to_lower(uint32_t c) {
  return static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

size_t white_space_at_front(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const CodePoint c = front_code_point(text.substr(at));
    if (!is_white_space(c.value)) break;
    at += c.length;
  }
  return at;
}

size_t white_space_at_end(std::string_view text) {
  const size_t size = text.size();
  while (!text.empty()) {
    const size_t length = last_character(text);
    if (!is_white_space(front_code_point(text.substr(text.size() - length)).value)) break;
    text.remove_suffix(length);
  }
  return size - text.size();
}

bool begins_with_word_character(std::string_view text) {
  return !text.empty() && is_word_character(front_code_point(text).value);
}

bool ends_with_word_character(std::string_view text) {
  return !text.empty() &&
         is_word_character(front_code_point(text.substr(text.size() - last_character(text))).value);
}

}  // namespace butterfly::model
