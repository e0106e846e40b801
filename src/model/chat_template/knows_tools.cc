#include "model/chat_template/knows_tools.h"

#include <algorithm>
#include <cctype>

namespace butterfly::model {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// A name of its own in code, outside of its strings. message.tools is another thing.
bool names_tools(std::string_view code) {
  constexpr std::string_view kName = "tools";
  char quote = 0;
  for (size_t i = 0; i < code.size(); ++i) {
    const char c = code[i];
    if (quote != 0) {
      if (c == '\\')
        ++i;
      else if (c == quote)
        quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (is_word(c)) {
      size_t end = i;
      while (end < code.size() && is_word(code[end])) ++end;
      const bool member = i > 0 && code[i - 1] == '.';
      if (code.substr(i, end - i) == kName && !member) return true;
      i = end - 1;
    }
  }
  return false;
}

}  // namespace

bool knows_tools(std::string_view source) {
  for (size_t at = 0; (at = source.find('{', at)) != std::string_view::npos;) {
    const char kind = at + 1 < source.size() ? source[at + 1] : 0;
    if (kind != '{' && kind != '%' && kind != '#') {
      ++at;
      continue;
    }
    const std::string_view close = kind == '{' ? "}}" : kind == '%' ? "%}" : "#}";
    const size_t end = std::min(source.find(close, at + 2), source.size());
    if (kind != '#' && names_tools(source.substr(at + 2, end - at - 2))) return true;
    at = end;
  }
  return false;
}

}  // namespace butterfly::model
