// Keys, tokens and other texts that nobody may guess.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace butterfly {

// Hexadecimal digits from the system's source of random numbers. Throws Error kIo when it has none.
std::string random_hex(size_t digits);

// Takes the same time whatever the texts hold; texts of unequal length are unequal.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace butterfly
