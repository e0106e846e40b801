#include "base/sha256_stream.h"

#include <openssl/evp.h>

#include <array>

#include "base/check.h"
#include "base/hex.h"

namespace butterfly {

struct Sha256Stream::Context {
  EVP_MD_CTX* digest = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(digest); }
};

Sha256Stream::Sha256Stream() : context_(std::make_unique<Context>()) {
  BF_CHECK(EVP_DigestInit_ex(context_->digest, EVP_sha256(), nullptr) == 1) << "no SHA-256";
}
Sha256Stream::~Sha256Stream() = default;
Sha256Stream::Sha256Stream(Sha256Stream&&) noexcept = default;
Sha256Stream& Sha256Stream::operator=(Sha256Stream&&) noexcept = default;

void Sha256Stream::add(std::span<const std::byte> bytes) {
  BF_CHECK(EVP_DigestUpdate(context_->digest, bytes.data(), bytes.size()) == 1) << "no SHA-256";
}

std::string Sha256Stream::hex() const {
  Context copy;
  std::array<std::byte, 32> hash;
  unsigned int size = 0;
  BF_CHECK(EVP_MD_CTX_copy_ex(copy.digest, context_->digest) == 1 &&
           EVP_DigestFinal_ex(copy.digest, reinterpret_cast<unsigned char*>(hash.data()), &size) == 1 &&
           size == hash.size())
      << "no SHA-256";
  return to_hex(hash);
}

}  // namespace butterfly
