// SHA-256 as 64 hexadecimal digits, and random secrets of the same alphabet.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace butterfly::cluster {

std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);

// From the system's source of random numbers. Throws Error kIo when it has none.
std::string random_hex(size_t digits);

// Whether `text` is `digits` digits of 0-9a-f.
bool is_hex(std::string_view text, size_t digits);

// Takes the same time whatever the texts hold; texts of unequal length are unequal.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace butterfly::cluster
