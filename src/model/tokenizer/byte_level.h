// GPT-2's letters for bytes: vocabularies of byte-level BPE are written in 256 printable characters, one per
// byte.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace butterfly::model {

// The bytes that `text` stands for; nothing if it has a character that stands for no byte. "Ġthe" -> " the".
std::optional<std::string> from_byte_letters(std::string_view text);
// Appends instead; false leaves `bytes` as it was.
bool append_from_byte_letters(std::string_view text, std::string& bytes);

std::string to_byte_letters(std::string_view bytes);

}  // namespace butterfly::model
