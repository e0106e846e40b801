// Texts as Python treats them: characters are code points, white space is Unicode's.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "model/chat_template/value.h"

namespace butterfly::model::chat_template {

std::string_view python_strip_left(std::string_view text);
std::string_view python_strip_right(std::string_view text);
inline std::string_view python_strip(std::string_view text) {
  return python_strip_left(python_strip_right(text));
}
// Of any of the characters of `set`.
std::string_view python_strip_left(Budget& budget, std::string_view text, std::string_view set);
std::string_view python_strip_right(Budget& budget, std::string_view text, std::string_view set);

// The first place of `wanted` from `from` on, and the last one; npos: none. Charged as it is spent: the first
// takes time in proportion to the text, the second to both lengths multiplied where they are long.
size_t find_text(Budget& budget, std::string_view text, std::string_view wanted, size_t from = 0);
size_t find_last_text(Budget& budget, std::string_view text, std::string_view wanted);

// What the inside of a string literal means.
std::string python_unescape(std::string_view literal, int line);

std::vector<std::string_view> characters(std::string_view text);
size_t character_count(std::string_view text);

bool python_is_space(uint32_t code_point);
Text python_upper(TextView text);
Text python_lower(TextView text);
Text python_capitalize(TextView text);
Text python_title(TextView text);  // the method; the filter of this name differs
std::vector<std::string_view> python_split_lines(std::string_view text, bool keep_ends = false);
// All places of `from`, or the first `count` of them; an empty `from` is between all characters.
Text python_replace(Budget& budget, TextView text, std::string_view from, TextView to, int64_t count);

// str() and repr(). Fails for what has no lasting text (functions, iterators). Brackets, numbers and names of
// Python (None) count as the template's: it asked for them, and a request cannot choose their letters.
Text python_str(Budget& budget, const Value& value);
void python_repr(Budget& budget, const Value& value, Text& into);
std::string python_float(double value);

}  // namespace butterfly::model::chat_template
