// Bytes as hexadecimal digits 0-9a-f.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace butterfly {

std::string to_hex(std::span<const std::byte> bytes);
// False for anything but two digits for each byte of `into`, which then holds nothing of use.
bool from_hex(std::string_view text, std::span<std::byte> into);
// Whether `text` is `digits` digits.
bool is_hex(std::string_view text, size_t digits);

}  // namespace butterfly
