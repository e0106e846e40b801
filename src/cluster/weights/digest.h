// SHA-256: the names of chunks and model files.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/hex.h"
#include "base/sha256.h"

namespace butterfly::cluster {

using Digest = Sha256;

inline Digest digest_of(std::span<const std::byte> bytes) { return sha256(bytes); }

// 64 hexadecimal digits, and back; nothing for any other text.
inline std::string digest_to_hex(const Digest& digest) { return to_hex(digest); }
inline std::optional<Digest> digest_from_hex(std::string_view text) {
  Digest digest;
  return from_hex(text, digest) ? std::optional(digest) : std::nullopt;
}

}  // namespace butterfly::cluster
