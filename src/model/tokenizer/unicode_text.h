// What tokenizers need to know of Unicode: normal forms, white space, classes of characters.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace butterfly::model {

// The character at the front and its length in bytes. A byte that begins no character is U+FFFD of length 1.
struct CodePoint {
  uint32_t value;
  size_t length;
};
CodePoint front_code_point(std::string_view text);  // text is not empty
void append_utf8(uint32_t code_point, std::string& text);

// Normal form C of a text; bytes that are no UTF-8 stay as they are.
std::string to_nfc(std::string_view text);
std::string to_nfd(std::string_view text);

bool is_white_space(uint32_t code_point);     // White_Space of the standard
bool is_punctuation(uint32_t code_point);     // general category P
bool is_symbol(uint32_t code_point);          // general category S
bool is_control(uint32_t code_point);         // Cc, Cf, Co, Cn
bool is_mark(uint32_t code_point);            // Mn: what accents decompose into
bool is_word_character(uint32_t code_point);  // letters, marks, numbers, connectors: \w
uint32_t to_lower(uint32_t code_point);

// Bytes.
size_t white_space_at_front(std::string_view text);
size_t white_space_at_end(std::string_view text);
bool begins_with_word_character(std::string_view text);
bool ends_with_word_character(std::string_view text);

}  // namespace butterfly::model
