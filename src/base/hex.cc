#include "base/hex.h"

#include <algorithm>

namespace butterfly {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

}  // namespace

std::string to_hex(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<size_t>(byte) >> 4];
    text += kDigits[std::to_integer<size_t>(byte) & 15];
  }
  return text;
}

bool from_hex(std::string_view text, std::span<std::byte> into) {
  if (!is_hex(text, 2 * into.size())) return false;
  for (size_t i = 0; i < into.size(); ++i)
    into[i] = static_cast<std::byte>(kDigits.find(text[2 * i]) << 4 | kDigits.find(text[2 * i + 1]));
  return true;
}

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return kDigits.find(c) != std::string_view::npos;
         });
}

}  // namespace butterfly
