// SHA-256.
#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace butterfly {

using Sha256 = std::array<std::byte, 32>;

Sha256 sha256(std::span<const std::byte> bytes);

// As 64 hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);

}  // namespace butterfly
