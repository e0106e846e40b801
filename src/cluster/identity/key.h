// A node's private key (Ed25519). It never leaves the node.
#pragma once
#include <openssl/types.h>

#include <memory>
#include <string>
#include <string_view>

namespace butterfly::cluster {

// Ed25519. Copies share the key. Immutable: any thread may sign with it.
class PrivateKey {
 public:
  static PrivateKey make();
  // `place` begins the message of an error: kCorrupt.
  static PrivateKey from_pem(const std::string& text, std::string_view place);
  std::string to_pem() const;

  // SHA-256 of the public half, 64 hexadecimal digits: NodeId::key.
  std::string fingerprint() const;
  // 64 bytes.
  std::string sign(std::string_view text) const;
  EVP_PKEY* get() const { return key_.get(); }

 private:
  explicit PrivateKey(std::shared_ptr<EVP_PKEY> key) : key_(std::move(key)) {}
  std::shared_ptr<EVP_PKEY> key_;
};

// SHA-256 of a public key as certificates hold it (SubjectPublicKeyInfo).
std::string key_fingerprint(EVP_PKEY* key);

}  // namespace butterfly::cluster
