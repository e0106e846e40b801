#include "model/chat_template/python_text.h"

#include <utf8proc.h>

#include <charconv>
#include <cmath>
#include <cstring>

#include "model/tokenizer/unicode_text.h"

namespace butterfly::model::chat_template {

bool python_is_space(uint32_t code_point) {
  return is_white_space(code_point) || (code_point >= 0x1c && code_point <= 0x1f);
}

namespace {

// The last character of a text that is not empty.
std::string_view back_character(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && text.size() - begin < 4 && (text[begin] & 0xc0) == 0x80) --begin;
  const std::string_view last = text.substr(begin);
  return front_code_point(last).length == last.size() ? last : text.substr(text.size() - 1);
}

template <typename Drop>
std::string_view strip_left_if(std::string_view text, Drop drop) {
  while (!text.empty()) {
    const size_t length = front_code_point(text).length;
    if (!drop(text.substr(0, length))) break;
    text.remove_prefix(length);
  }
  return text;
}

template <typename Drop>
std::string_view strip_right_if(std::string_view text, Drop drop) {
  while (!text.empty()) {
    const std::string_view last = back_character(text);
    if (!drop(last)) break;
    text.remove_suffix(last.size());
  }
  return text;
}

bool is_space_text(std::string_view character) { return python_is_space(front_code_point(character).value); }

// Whether repr() shows a character as it is.
bool is_printable(uint32_t c) {
  if (c < 0x7f) return c >= 0x20;
  return !is_control(c) && !is_white_space(c) && !(c >= 0xd800 && c <= 0xdfff);
}

void repr_text(TextView text, Text& into) {
  const std::string_view bytes = text.bytes;
  const char quote = bytes.find('\'') != bytes.npos && bytes.find('"') == bytes.npos ? '"' : '\'';
  const std::string_view quotes(&quote, 1);
  into.append(quotes, Origin::kTemplate);
  for (const std::string_view character : characters(bytes)) {
    const TextView part = text.part(character);
    const uint32_t c = front_code_point(character).value;
    std::string escape;
    if (c == static_cast<uint32_t>(quote) || c == '\\') {
      escape = '\\' + std::string(character);
    } else if (c == '\n') {
      escape = "\\n";
    } else if (c == '\r') {
      escape = "\\r";
    } else if (c == '\t') {
      escape = "\\t";
    } else if (!is_printable(c)) {
      escape = c < 0x100     ? fmt::format("\\x{:02x}", c)
               : c < 0x10000 ? fmt::format("\\u{:04x}", c)
                             : fmt::format("\\U{:08x}", c);
    }
    if (escape.empty()) {
      into.append(part);
    } else {
      into.append(escape, part.origin());
    }
  }
  into.append(quotes, Origin::kTemplate);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

template <typename Map>
Text map_characters(TextView text, Map map) {
  Text mapped;
  std::string character_of;
  bool first = true;
  for (const std::string_view character : characters(text.bytes)) {
    const TextView part = text.part(character);
    const CodePoint c = front_code_point(character);
    // A byte that is no character stays as it is.
    if (c.value == 0xfffd) {
      mapped.append(part);
    } else {
      character_of.clear();
      append_utf8(map(c.value, first), character_of);
      mapped.append(character_of, part.origin());
    }
    first = false;
  }
  return mapped;
}

uint32_t upper(uint32_t c) {
  return static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}
uint32_t lower(uint32_t c) {
  return static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}
uint32_t title(uint32_t c) {
  return static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

bool is_cased(uint32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT;
}

}  // namespace

std::string_view python_strip_left(std::string_view text) { return strip_left_if(text, is_space_text); }
std::string_view python_strip_right(std::string_view text) { return strip_right_if(text, is_space_text); }
std::string_view python_strip_left(Budget& budget, std::string_view text, std::string_view set) {
  return strip_left_if(text, [&](std::string_view c) { return find_text(budget, set, c) != set.npos; });
}
std::string_view python_strip_right(Budget& budget, std::string_view text, std::string_view set) {
  return strip_right_if(text, [&](std::string_view c) { return find_text(budget, set, c) != set.npos; });
}

size_t find_text(Budget& budget, std::string_view text, std::string_view wanted, size_t from) {
  if (wanted.size() > text.size() - from) return std::string_view::npos;
  // memmem of glibc takes linear time whatever the texts are; std::string's does not.
  const void* found = wanted.empty()
                          ? text.data() + from
                          : ::memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  const size_t place =
      found == nullptr ? text.size() : static_cast<size_t>(static_cast<const char*>(found) - text.data());
  budget.step(1 + (place - from + wanted.size()) / 16);
  return found == nullptr ? std::string_view::npos : place;
}

size_t find_last_text(Budget& budget, std::string_view text, std::string_view wanted) {
  const size_t place = text.rfind(wanted);
  const size_t seen = text.size() - (place == text.npos ? 0 : place);
  budget.step(1 + seen / 16 + seen * (wanted.size() / 16) / 64);
  return place;
}

std::string python_unescape(std::string_view literal, int line) {
  std::string text;
  text.reserve(literal.size());
  for (size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\' || i + 1 >= literal.size()) {
      text += literal[i];
      continue;
    }
    const char c = literal[++i];
    constexpr std::string_view kFrom = "abfnrtv\\'\"";
    constexpr std::string_view kTo = "\a\b\f\n\r\t\v\\'\"";
    if (const size_t known = kFrom.find(c); known != kFrom.npos) {
      text += kTo[known];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      uint32_t value = 0;
      for (size_t d = 1; d <= digits; ++d) {
        const int digit = i + d < literal.size() ? hex_digit(literal[i + d]) : -1;
        if (digit < 0) fail(Errc::kInvalidArgument, "line {}: \\{} needs {} hex digits", line, c, digits);
        value = value * 16 + static_cast<uint32_t>(digit);
      }
      if (value > 0x10ffff) fail(Errc::kInvalidArgument, "line {}: \\U{:08x} is no character", line, value);
      append_utf8(value, text);
      i += digits;
    } else if (c >= '0' && c <= '7') {
      uint32_t value = 0;
      size_t d = 0;
      for (; d < 3 && i + d < literal.size() && literal[i + d] >= '0' && literal[i + d] <= '7'; ++d)
        value = value * 8 + static_cast<uint32_t>(literal[i + d] - '0');
      append_utf8(value, text);
      i += d - 1;
    } else if (c != '\n') {
      text += '\\';
      text += c;
    }
  }
  return text;
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> list;
  list.reserve(text.size());
  while (!text.empty()) {
    const size_t length = front_code_point(text).length;
    list.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return list;
}

size_t character_count(std::string_view text) {
  size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(front_code_point(text).length);
  return count;
}

Text python_upper(TextView text) {
  return map_characters(text, [](uint32_t c, bool) { return upper(c); });
}
Text python_lower(TextView text) {
  return map_characters(text, [](uint32_t c, bool) { return lower(c); });
}
Text python_capitalize(TextView text) {
  return map_characters(text, [](uint32_t c, bool first) { return first ? title(c) : lower(c); });
}
Text python_title(TextView text) {
  bool in_word = false;
  return map_characters(text, [&](uint32_t c, bool) {
    const bool inside = std::exchange(in_word, is_cased(c));
    return inside ? lower(c) : title(c);
  });
}

std::vector<std::string_view> python_split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = front_code_point(text.substr(i));
    size_t length = c.length;
    const bool ends = (c.value >= 0x0a && c.value <= 0x0d) || (c.value >= 0x1c && c.value <= 0x1e) ||
                      c.value == 0x85 || c.value == 0x2028 || c.value == 0x2029;
    if (ends) {
      if (c.value == '\r' && i + 1 < text.size() && text[i + 1] == '\n') length = 2;
      lines.push_back(text.substr(begin, i - begin + (keep_ends ? length : 0)));
      begin = i + length;
    }
    i += length;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

Text python_replace(Budget& budget, TextView text, std::string_view from, TextView to, int64_t count) {
  Text result;
  size_t place = 0;
  budget.allocate(text.size());
  while (count != 0) {
    const size_t found = from.empty() ? place : find_text(budget, text.bytes, from, place);
    if (found == std::string_view::npos) break;
    budget.allocate(to.size());
    result.append(text.substr(place, found - place));
    result.append(to);
    place = found + from.size();
    if (count > 0) --count;
    if (!from.empty()) continue;
    if (place >= text.size()) break;
    const size_t length = front_code_point(text.bytes.substr(place)).length;
    result.append(text.substr(place, length));
    place += length;
  }
  result.append(text.substr(std::min(place, text.size())));
  return result;
}

std::string python_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char digits[64];
  const auto scientific = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::scientific);
  const std::string_view shortest(digits, static_cast<size_t>(scientific.ptr - digits));
  const size_t e = shortest.find('e');
  int exponent = 0;
  const char* from = shortest.data() + e + 1 + (shortest[e + 1] == '+' ? 1 : 0);
  std::from_chars(from, shortest.data() + shortest.size(), exponent);
  if (exponent < -4 || exponent >= 16) return std::string(shortest);
  char fixed[64];
  const auto end = std::to_chars(fixed, fixed + sizeof fixed, value, std::chars_format::fixed);
  std::string text(fixed, end.ptr);
  if (text.find('.') == text.npos) text += ".0";
  return text;
}

void python_repr(Budget& budget, const Value& value, Text& into) {
  const auto put = [&](std::string_view text) { into.append(text, Origin::kTemplate); };
  budget.step();
  if (value.is_undefined()) {
    put("Undefined");
  } else if (value.is_none()) {
    put("None");
  } else if (value.is_bool()) {
    put(value.truthy() ? "True" : "False");
  } else if (value.is_int()) {
    put(std::to_string(value.integer()));
  } else if (value.is_number()) {
    put(python_float(value.real()));
  } else if (value.is_text()) {
    budget.allocate(value.text().size());
    repr_text(value.view(), into);
  } else if (const List* list = value.list(); list != nullptr && list->kind <= ListKind::kTuple) {
    const bool tuple = list->kind == ListKind::kTuple;
    put(tuple ? "(" : "[");
    for (size_t i = 0; i < list->items.size(); ++i) {
      if (i > 0) put(", ");
      python_repr(budget, list->items[i], into);
    }
    if (tuple && list->items.size() == 1) put(",");
    put(tuple ? ")" : "]");
  } else if (const Dict* dict = value.dict()) {
    put("{");
    bool first = true;
    for (const auto& [key, item] : dict->entries) {
      if (!std::exchange(first, false)) put(", ");
      python_repr(budget, key, into);
      put(": ");
      python_repr(budget, item, into);
    }
    put("}");
  } else {
    fail(Errc::kInvalidArgument, "a {} cannot be made a text", value.type_name());
  }
}

Text python_str(Budget& budget, const Value& value) {
  if (value.is_text()) return Text(value.view());
  Text text;
  if (!value.is_undefined()) python_repr(budget, value, text);
  return text;
}

}  // namespace butterfly::model::chat_template
