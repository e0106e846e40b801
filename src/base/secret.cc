#include "base/secret.h"

#include <openssl/crypto.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hex.h"

namespace butterfly {

std::string random_hex(size_t digits) {
  std::string text;
  while (text.size() < digits) {
    std::byte bytes[32];
    if (getentropy(bytes, sizeof bytes) != 0) fail(Errc::kIo, "the system has no random numbers");
    text += to_hex(bytes);
  }
  text.resize(digits);
  return text;
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace butterfly
