#include "cluster/weights/digest.h"

#include <openssl/evp.h>

#include "base/check.h"

namespace butterfly::cluster {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

Digest digest_of(std::span<const std::byte> bytes) {
  Digest digest;
  unsigned int size = 0;
  BF_CHECK(EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), &size,
                      EVP_sha256(), nullptr) == 1 &&
           size == digest.size())
      << "no SHA-256";
  return digest;
}

std::string digest_to_hex(const Digest& digest) {
  std::string text;
  text.reserve(2 * digest.size());
  for (const std::byte b : digest) {
    text += kDigits[std::to_integer<unsigned>(b) >> 4];
    text += kDigits[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

std::optional<Digest> digest_from_hex(std::string_view text) {
  Digest digest;
  if (text.size() != 2 * digest.size()) return std::nullopt;
  for (size_t i = 0; i < digest.size(); ++i) {
    const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    digest[i] = static_cast<std::byte>(high * 16 + low);
  }
  return digest;
}

}  // namespace butterfly::cluster
