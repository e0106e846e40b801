// How vocabularies write their tokens down: spaces as U+2581, bytes as <0x0A>.
#pragma once
#include <string>
#include <string_view>

namespace butterfly::model {

// `text` with a space for every U+2581.
std::string with_spaces(std::string_view text);

// "<0x0A>" -> 10; -1 if the text has another form.
int parse_byte_token(std::string_view text);

}  // namespace butterfly::model
