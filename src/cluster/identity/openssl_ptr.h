// Owning pointers to OpenSSL's objects, and its errors in our words. For .cc files of this module.
#pragma once
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace butterfly::cluster {

template <auto free>
struct OpensslFree {
  void operator()(auto* object) const { free(object); }
};
using BioPtr = std::unique_ptr<BIO, OpensslFree<BIO_free>>;
using DigestPtr = std::unique_ptr<EVP_MD_CTX, OpensslFree<EVP_MD_CTX_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, OpensslFree<EVP_PKEY_free>>;
using RequestPtr = std::unique_ptr<X509_REQ, OpensslFree<X509_REQ_free>>;
using X509Ptr = std::unique_ptr<X509, OpensslFree<X509_free>>;
using SslPtr = std::unique_ptr<SSL, OpensslFree<SSL_free>>;

// The last of OpenSSL's errors of this thread, which are then forgotten; "no reason given" when there is
// none.
inline std::string openssl_reason() {
  const unsigned long code = ERR_peek_last_error();
  const char* reason = ERR_reason_error_string(code);
  ERR_clear_error();
  return reason == nullptr ? "no reason given" : reason;
}

// For calls that fail only when memory or random numbers are out.
inline void openssl_must(bool worked, std::string_view what) {
  if (!worked) fail(Errc::kIo, "[openssl] {}: {}", what, openssl_reason());
}

inline BioPtr memory_bio(std::string_view contents) {
  BioPtr bio(BIO_new_mem_buf(contents.data(), static_cast<int>(contents.size())));
  openssl_must(bio != nullptr, "memory");
  return bio;
}
inline std::string contents_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<size_t>(size)};
}

}  // namespace butterfly::cluster
