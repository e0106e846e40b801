// UTF-8 by the table of the Unicode standard (3-7): no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace butterfly {

// Bytes of the character at the front of `text`, 1 to 4; 0 if no valid character begins there.
size_t utf8_length(std::string_view text);

// Length of the longest front part of `text` that does not end inside a character: what is left out (0 to 3
// bytes) is the beginning of a character that more bytes could complete. Bytes that can never become one are
// not held back.
size_t utf8_whole_bytes(std::string_view text);

// `text` with every byte that is in no valid character replaced by U+FFFD; for outputs that must be UTF-8
// (JSON).
std::string utf8_replace_invalid(std::string_view text);

}  // namespace butterfly
