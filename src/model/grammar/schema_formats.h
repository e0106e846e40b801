// What JSON Schema's "format" says about strings, as expressions.
#pragma once
#include <string_view>

namespace butterfly::model::grammar {

// Null for a format that is not known, which is then only a note.
const char* format_expression(std::string_view format);

// Formats of the standard that no expression here can say.
bool is_refused_format(std::string_view format);

}  // namespace butterfly::model::grammar
