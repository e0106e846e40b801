// SHA-256 of bytes, as 64 hexadecimal digits.
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace butterfly::train {

std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace butterfly::train
