#include "cluster/identity/key.h"

#include <openssl/pem.h>

#include "base/sha256.h"
#include "cluster/identity/openssl_ptr.h"

namespace butterfly::cluster {

PrivateKey PrivateKey::make() {
  KeyPtr key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  openssl_must(key != nullptr, "new key");
  return PrivateKey(std::shared_ptr<EVP_PKEY>(std::move(key)));
}

PrivateKey PrivateKey::from_pem(const std::string& text, std::string_view place) {
  // No password is ever asked for.
  const auto no_password = [](char*, int, int, void*) { return -1; };
  KeyPtr key(PEM_read_bio_PrivateKey(memory_bio(text).get(), nullptr, no_password, nullptr));
  if (key == nullptr) fail(Errc::kCorrupt, "{}: is not a private key: {}", place, openssl_reason());
  return PrivateKey(std::shared_ptr<EVP_PKEY>(std::move(key)));
}

std::string PrivateKey::to_pem() const {
  const BioPtr out(BIO_new(BIO_s_secmem()));
  openssl_must(out != nullptr &&
                   PEM_write_bio_PrivateKey(out.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr),
               "key to text");
  return contents_of(out.get());
}

std::string PrivateKey::fingerprint() const { return key_fingerprint(key_.get()); }

std::string PrivateKey::sign(std::string_view text) const {
  const DigestPtr context(EVP_MD_CTX_new());
  std::string signature(64, '\0');
  size_t size = signature.size();
  openssl_must(context != nullptr &&
                   EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) == 1 &&
                   EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                                  reinterpret_cast<const unsigned char*>(text.data()), text.size()) == 1,
               "signature");
  signature.resize(size);
  return signature;
}

std::string key_fingerprint(EVP_PKEY* key) {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key, &der);
  openssl_must(size > 0, "public key");
  const std::unique_ptr<unsigned char, decltype([](unsigned char* p) { OPENSSL_free(p); })> owner(der);
  return sha256_hex(std::as_bytes(std::span(der, static_cast<size_t>(size))));
}

}  // namespace butterfly::cluster
