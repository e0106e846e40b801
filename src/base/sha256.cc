#include "base/sha256.h"

#include <openssl/evp.h>

#include "base/check.h"
#include "base/hex.h"

namespace butterfly {

Sha256 sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  unsigned int size = 0;
  BF_CHECK(EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(hash.data()), &size,
                      EVP_sha256(), nullptr) == 1 &&
           size == hash.size())
      << "no SHA-256";
  return hash;
}

std::string sha256_hex(std::span<const std::byte> bytes) { return to_hex(sha256(bytes)); }
std::string sha256_hex(std::string_view text) { return sha256_hex(std::as_bytes(std::span(text))); }

}  // namespace butterfly
