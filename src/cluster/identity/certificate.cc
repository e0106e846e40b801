#include "cluster/identity/certificate.h"

#include <openssl/pem.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cctype>
#include <ctime>

#include "base/sha256.h"
#include "cluster/identity/openssl_ptr.h"

namespace butterfly::cluster {
namespace {

constexpr size_t kCertificateNameMax = 63;
constexpr std::chrono::seconds kClockSkew = std::chrono::hours(1);
constexpr std::string_view kCoordinatorUri = "butterfly:coordinator:";

// An encoding that OpenSSL allocated.
template <typename Encode>
std::vector<std::byte> der_of(Encode encode) {
  unsigned char* der = nullptr;
  const int size = encode(&der);
  openssl_must(size > 0, "encoding");
  const auto* begin = reinterpret_cast<const std::byte*>(der);
  std::vector<std::byte> out(begin, begin + size);
  OPENSSL_free(der);
  return out;
}

std::string common_name(const X509_NAME* name) {
  const int at = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
  if (at < 0) return {};
  unsigned char* utf8 = nullptr;
  const int size = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
  if (size < 0) return {};
  std::string out(reinterpret_cast<const char*>(utf8), static_cast<size_t>(size));
  OPENSSL_free(utf8);
  return out;
}

void set_common_name(X509_NAME* name, const std::string& text) {
  openssl_must(X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8,
                                          reinterpret_cast<const unsigned char*>(text.data()),
                                          static_cast<int>(text.size()), -1, 0),
               "common name");
}

WallTime wall_time(const ASN1_TIME* time) {
  std::tm parts{};
  openssl_must(ASN1_TIME_to_tm(time, &parts), "date");
  return WallTime(std::chrono::seconds(timegm(&parts)));
}

void add_extension(X509* x509, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, x509, nullptr, nullptr, 0);
  X509V3_set_ctx_nodb(&context);
  const std::unique_ptr<X509_EXTENSION, OpensslFree<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  openssl_must(extension != nullptr && X509_add_ext(x509, extension.get(), -1), value);
}

// Version 3, a random serial number, dates and key.
X509Ptr new_certificate(EVP_PKEY* key, WallTime from, WallTime until) {
  X509Ptr x509(X509_new());
  openssl_must(x509 != nullptr && X509_set_version(x509.get(), X509_VERSION_3), "new certificate");
  unsigned char serial[16];
  openssl_must(RAND_bytes(serial, sizeof serial) == 1, "random numbers");
  serial[0] &= 0x7f;  // positive
  const std::unique_ptr<BIGNUM, OpensslFree<BN_free>> number(BN_bin2bn(serial, sizeof serial, nullptr));
  openssl_must(
      number != nullptr && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(x509.get())) != nullptr,
      "serial number");
  openssl_must(ASN1_TIME_set(X509_getm_notBefore(x509.get()), from.time_since_epoch().count()) != nullptr &&
                   ASN1_TIME_set(X509_getm_notAfter(x509.get()), until.time_since_epoch().count()) != nullptr,
               "dates");
  openssl_must(X509_set_pubkey(x509.get(), key), "public key");
  return x509;
}

// Ed25519 hashes by itself: no digest is named.
void sign(X509* x509, const PrivateKey& key) {
  openssl_must(X509_sign(x509, key.get(), nullptr) > 0, "signature");
}

}  // namespace

std::string why_not_node_name(std::string_view name) {
  const auto plain = [](unsigned char c) { return c < 128 && std::isalnum(c) != 0; };
  if (name.empty()) return "a node needs a name";
  if (name.size() > kCertificateNameMax)
    return fmt::format("a node's name has at most {} characters, this one has {}", kCertificateNameMax,
                       name.size());
  if (!plain(name.front()) || !std::all_of(name.begin(), name.end(), [&](unsigned char c) {
        return plain(c) || c == '-' || c == '_' || c == '.';
      }))
    return "a node's name consists of letters, digits, '-', '_' and '.', and begins with a letter or digit";
  return {};
}

Certificate Certificate::from_pem(const std::string& text, std::string_view place) {
  X509Ptr x509(PEM_read_bio_X509(memory_bio(text).get(), nullptr, nullptr, nullptr));
  if (x509 == nullptr) fail(Errc::kCorrupt, "{}: is not a certificate: {}", place, openssl_reason());
  return Certificate(std::shared_ptr<X509>(std::move(x509)));
}

Result<Certificate> Certificate::from_der(std::span<const std::byte> der) {
  const auto* at = reinterpret_cast<const unsigned char*>(der.data());
  X509Ptr x509(d2i_X509(nullptr, &at, static_cast<long>(der.size())));
  if (x509 == nullptr || at != reinterpret_cast<const unsigned char*>(der.data() + der.size()))
    return {Errc::kCorrupt, fmt::format("[certificate] cannot be read: {}", openssl_reason())};
  if (X509_get0_pubkey(x509.get()) == nullptr)
    return {Errc::kCorrupt, fmt::format("[certificate] has no key: {}", openssl_reason())};
  return Certificate(std::shared_ptr<X509>(std::move(x509)));
}

std::string Certificate::to_pem() const {
  const BioPtr out(BIO_new(BIO_s_mem()));
  openssl_must(out != nullptr && PEM_write_bio_X509(out.get(), x509_.get()), "certificate to text");
  return contents_of(out.get());
}

std::vector<std::byte> Certificate::to_der() const {
  return der_of([&](unsigned char** to) { return i2d_X509(x509_.get(), to); });
}

NodeId Certificate::node() const {
  return {.key = key_fingerprint(X509_get0_pubkey(x509_.get())),
          .name = common_name(X509_get_subject_name(x509_.get()))};
}

std::string Certificate::coordinator() const {
  using Names = std::unique_ptr<GENERAL_NAMES, OpensslFree<GENERAL_NAMES_free>>;
  const Names names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(x509_.get(), NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* uri = name->d.uniformResourceIdentifier;
    const std::string_view text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                                static_cast<size_t>(ASN1_STRING_length(uri)));
    if (text.starts_with(kCoordinatorUri)) return std::string(text.substr(kCoordinatorUri.size()));
  }
  ERR_clear_error();
  return {};
}

std::string Certificate::sha256() const { return sha256_hex(to_der()); }
WallTime Certificate::not_before() const { return wall_time(X509_get0_notBefore(x509_.get())); }
WallTime Certificate::not_after() const { return wall_time(X509_get0_notAfter(x509_.get())); }

bool Certificate::signed_text(std::string_view text, std::string_view signature) const {
  const DigestPtr context(EVP_MD_CTX_new());
  openssl_must(context != nullptr, "memory");
  const bool good =
      EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, X509_get0_pubkey(x509_.get())) == 1 &&
      EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature.data()),
                       signature.size(), reinterpret_cast<const unsigned char*>(text.data()),
                       text.size()) == 1;
  if (!good) (void)openssl_reason();
  return good;
}

bool Certificate::signed_by(const Certificate& authority) const {
  const bool is = X509_verify(x509_.get(), X509_get0_pubkey(authority.get())) == 1;
  ERR_clear_error();
  return is;
}

CertificateRequest CertificateRequest::make(const PrivateKey& key, const std::string& name) {
  RequestPtr request(X509_REQ_new());
  openssl_must(request != nullptr && X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) &&
                   X509_REQ_set_pubkey(request.get(), key.get()),
               "certificate request");
  set_common_name(X509_REQ_get_subject_name(request.get()), name);
  openssl_must(X509_REQ_sign(request.get(), key.get(), nullptr) > 0, "signature");
  return CertificateRequest(std::shared_ptr<X509_REQ>(std::move(request)));
}

Result<CertificateRequest> CertificateRequest::from_der(std::span<const std::byte> der) {
  const auto* at = reinterpret_cast<const unsigned char*>(der.data());
  RequestPtr request(d2i_X509_REQ(nullptr, &at, static_cast<long>(der.size())));
  if (request == nullptr || at != reinterpret_cast<const unsigned char*>(der.data() + der.size()))
    return {Errc::kCorrupt, fmt::format("[certificate request] cannot be read: {}", openssl_reason())};
  EVP_PKEY* key = X509_REQ_get0_pubkey(request.get());
  if (key == nullptr || EVP_PKEY_is_a(key, "ED25519") != 1) {
    ERR_clear_error();
    return {Errc::kCorrupt, "[certificate request] the key is not Ed25519"};
  }
  if (X509_REQ_verify(request.get(), key) != 1)
    return {Errc::kCorrupt,
            fmt::format("[certificate request] is not signed by its key: {}", openssl_reason())};
  const std::string name = common_name(X509_REQ_get_subject_name(request.get()));
  if (const std::string why = why_not_node_name(name); !why.empty())
    return {Errc::kCorrupt, fmt::format("[certificate request] {}", why)};
  return CertificateRequest(std::shared_ptr<X509_REQ>(std::move(request)));
}

std::vector<std::byte> CertificateRequest::to_der() const {
  return der_of([&](unsigned char** to) { return i2d_X509_REQ(request_.get(), to); });
}

NodeId CertificateRequest::node() const {
  return {.key = key_fingerprint(X509_REQ_get0_pubkey(request_.get())),
          .name = common_name(X509_REQ_get_subject_name(request_.get()))};
}

Certificate make_authority_certificate(const PrivateKey& key, const std::string& cluster_name, WallTime now,
                                       std::chrono::seconds life) {
  X509Ptr x509 = new_certificate(key.get(), now - kClockSkew, now + life);
  X509_NAME* name = X509_get_subject_name(x509.get());
  set_common_name(name, cluster_name);
  openssl_must(X509_set_issuer_name(x509.get(), name), "issuer");
  add_extension(x509.get(), x509.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  add_extension(x509.get(), x509.get(), NID_key_usage, "critical,keyCertSign,cRLSign");
  add_extension(x509.get(), x509.get(), NID_subject_key_identifier, "hash");
  sign(x509.get(), key);
  return Certificate(std::shared_ptr<X509>(std::move(x509)));
}

Certificate make_node_certificate(const Certificate& authority, const PrivateKey& authority_key,
                                  const NodeId& node, EVP_PKEY* node_key, const std::string& coordinator,
                                  WallTime now, std::chrono::seconds life) {
  X509Ptr x509 = new_certificate(node_key, now - kClockSkew, now + life);
  set_common_name(X509_get_subject_name(x509.get()), node.name);
  openssl_must(X509_set_issuer_name(x509.get(), X509_get_subject_name(authority.get())), "issuer");
  add_extension(x509.get(), authority.get(), NID_basic_constraints, "critical,CA:FALSE");
  add_extension(x509.get(), authority.get(), NID_key_usage, "critical,digitalSignature");
  add_extension(x509.get(), authority.get(), NID_ext_key_usage, "serverAuth,clientAuth");
  add_extension(x509.get(), authority.get(), NID_subject_key_identifier, "hash");
  add_extension(x509.get(), authority.get(), NID_authority_key_identifier, "keyid:always");
  add_extension(
      x509.get(), authority.get(), NID_subject_alt_name,
      fmt::format("DNS:{},URI:butterfly:node:{}{}", node.name, node.key,
                  coordinator.empty() ? "" : fmt::format(",URI:{}{}", kCoordinatorUri, coordinator)));
  sign(x509.get(), authority_key);
  return Certificate(std::shared_ptr<X509>(std::move(x509)));
}

}  // namespace butterfly::cluster
