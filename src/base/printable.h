// Text of strangers for messages to people.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace butterfly {

// `text` with bytes that a terminal would obey written as \xNN and cut at `length_max`: names in hostile
// files are input.
std::string printable(std::string_view text, size_t length_max = 100);

}  // namespace butterfly
