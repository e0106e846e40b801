#include "cluster/identity/sha256.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"

namespace butterfly::cluster {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

std::string hex(std::span<const unsigned char> bytes) {
  std::string out;
  out.reserve(2 * bytes.size());
  for (const unsigned char byte : bytes) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

}  // namespace

std::string sha256_hex(std::span<const std::byte> bytes) {
  unsigned char hash[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), hash);
  return hex(hash);
}

std::string sha256_hex(std::string_view text) { return sha256_hex(std::as_bytes(std::span(text))); }

std::string random_hex(size_t digits) {
  std::string out;
  while (out.size() < digits) {
    unsigned char bytes[32];
    if (getentropy(bytes, sizeof bytes) != 0) fail(Errc::kIo, "the system has no random numbers");
    out += hex(bytes);
  }
  out.resize(digits);
  return out;
}

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return kDigits.find(c) != std::string_view::npos;
         });
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace butterfly::cluster
