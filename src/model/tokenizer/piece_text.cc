#include "model/tokenizer/piece_text.h"

#include <charconv>

#include "model/tokenizer/vocabulary.h"

namespace butterfly::model {

std::string with_spaces(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const bool mark = text.starts_with(kSpaceMark);
    result += mark ? ' ' : text[0];
    text.remove_prefix(mark ? kSpaceMark.size() : 1);
  }
  return result;
}

int parse_byte_token(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
  int value = -1;
  const auto [end, error] = std::from_chars(text.data() + 3, text.data() + 5, value, 16);
  return error == std::errc() && end == text.data() + 5 ? value : -1;
}

}  // namespace butterfly::model
