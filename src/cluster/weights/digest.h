// SHA-256: the names of chunks and model files.
#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace butterfly::cluster {

using Digest = std::array<std::byte, 32>;

Digest digest_of(std::span<const std::byte> bytes);

// 64 hexadecimal digits, and back; nothing for any other text.
std::string digest_to_hex(const Digest& digest);
std::optional<Digest> digest_from_hex(std::string_view text);

}  // namespace butterfly::cluster
