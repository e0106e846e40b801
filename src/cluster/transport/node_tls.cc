#include "cluster/transport/node_tls.h"

#ifdef __aarch64__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "cluster/identity/openssl_ptr.h"

namespace butterfly::cluster {
namespace {

constexpr size_t kReadBufferBytes = 64u << 10;  // per link; several records at one call of the system

bool cpu_has_aes() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("aes") != 0;
#elif defined(__aarch64__)
  return (getauxval(AT_HWCAP) & HWCAP_AES) != 0;
#else
  return false;
#endif
}

// AES where the processor has it. A server without it insists on ChaCha20, one with it follows the client, so
// the weaker of two machines is spared.
constexpr const char* kAesFirst =
    "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384";
constexpr const char* kChachaFirst =
    "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384";

using VerifyCertificate = int (*)(X509_STORE_CTX*, void*);

// `argument` stays until the context dies.
TlsContext new_context(VerifyCertificate verify, std::shared_ptr<const void> argument) {
  SSL_CTX* raw = SSL_CTX_new(TLS_method());
  openssl_must(raw != nullptr, "TLS context");
  TlsContext context(raw, [argument](SSL_CTX* dead) { SSL_CTX_free(dead); });
  openssl_must(SSL_CTX_set_min_proto_version(raw, TLS1_3_VERSION) &&
                   SSL_CTX_set_max_proto_version(raw, TLS1_3_VERSION) &&
                   SSL_CTX_set_ciphersuites(raw, cpu_has_aes() ? kAesFirst : kChachaFirst),
               "TLS 1.3");
  if (!cpu_has_aes()) SSL_CTX_set_options(raw, SSL_OP_CIPHER_SERVER_PREFERENCE);
  // Links last: resuming sessions would only keep a second way in.
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(raw, 0);
  SSL_CTX_set_options(raw, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(raw, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(raw, 1);
  SSL_CTX_set_default_read_buffer_len(raw, kReadBufferBytes);
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_cert_verify_callback(raw, verify, const_cast<void*>(argument.get()));
  return context;
}

// As OpenSSL does, and then the list of the removed (`roster`, which may be null).
int verify_member(X509_STORE_CTX* chain, void* roster) {
  if (X509_verify_cert(chain) != 1) return 0;
  if (roster == nullptr) return 1;
  const X509* leaf = X509_STORE_CTX_get0_cert(chain);
  if (!static_cast<const Roster*>(roster)->is_removed(key_fingerprint(X509_get0_pubkey(leaf)))) return 1;
  X509_STORE_CTX_set_error(chain, X509_V_ERR_CERT_REVOKED);
  return 0;
}

struct WantedAuthority {
  std::string hash;
  std::string* other = nullptr;
};

// The authority is whichever certificate of the server's chain has the hash; only it is believed.
int verify_by_hash(X509_STORE_CTX* chain, void* argument) {
  const auto& wanted = *static_cast<const WantedAuthority*>(argument);
  const STACK_OF(X509)* sent = X509_STORE_CTX_get0_untrusted(chain);
  for (int i = 0; i < sk_X509_num(sent); ++i) {
    X509* candidate = sk_X509_value(sent, i);
    X509_up_ref(candidate);
    const Certificate certificate{std::shared_ptr<X509>(X509Ptr(candidate))};
    if (certificate.sha256() != wanted.hash) {
      if (wanted.other != nullptr) *wanted.other = certificate.sha256();  // the last one is the authority's
      continue;
    }
    if (wanted.other != nullptr) wanted.other->clear();
    const std::unique_ptr<STACK_OF(X509), decltype([](STACK_OF(X509) * stack) { sk_X509_free(stack); })>
        trusted(sk_X509_new_null());
    if (trusted == nullptr || sk_X509_push(trusted.get(), candidate) <= 0) return 0;
    X509_STORE_CTX_set0_trusted_stack(chain, trusted.get());
    const int verified = X509_verify_cert(chain);
    X509_STORE_CTX_set0_trusted_stack(chain, nullptr);
    return verified == 1 ? 1 : 0;
  }
  X509_STORE_CTX_set_error(chain, X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN);
  return 0;
}

constexpr unsigned char kLinkAlpn[] =
    "\x07"
    "bf-link";
constexpr unsigned char kJoinAlpn[] =
    "\x07"
    "bf-join";

void offer(SSL_CTX* context, const unsigned char* alpn) {
  openssl_must(SSL_CTX_set_alpn_protos(context, alpn, sizeof kLinkAlpn - 1) == 0, "ALPN");
}

bool join_allowed(SSL* ssl) { return SSL_get_app_data(ssl) != nullptr; }

// The server's choice. Who only wants to join is not asked for a certificate; the request for one comes after
// this.
int select_protocol(SSL* ssl, const unsigned char** out, unsigned char* out_size, const unsigned char* in,
                    unsigned int in_size, void*) {
  const auto chosen = [&](const unsigned char* alpn) {
    unsigned char* found = nullptr;
    const bool is = SSL_select_next_proto(&found, out_size, alpn, sizeof kLinkAlpn - 1, in, in_size) ==
                    OPENSSL_NPN_NEGOTIATED;
    if (is) *out = found;
    return is;
  };
  if (chosen(kLinkAlpn)) return SSL_TLSEXT_ERR_OK;
  if (!join_allowed(ssl) || !chosen(kJoinAlpn)) return SSL_TLSEXT_ERR_ALERT_FATAL;
  SSL_set_verify(ssl, SSL_VERIFY_NONE, nullptr);
  return SSL_TLSEXT_ERR_OK;
}

void prove(SSL_CTX* context, const Credentials& credentials) {
  openssl_must(SSL_CTX_use_certificate(context, credentials.own.get()) == 1 &&
                   SSL_CTX_use_PrivateKey(context, credentials.key.get()) == 1,
               "own certificate");
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  openssl_must(X509_STORE_add_cert(store, credentials.authority.get()) == 1, "authority");
  SSL_CTX_set_verify_depth(context, 1);
}

}  // namespace

NodeTls::NodeTls(Credentials credentials, std::shared_ptr<const Roster> roster)
    : roster_(std::move(roster)), contexts_(make(std::move(credentials))) {}

NodeId NodeTls::self() const { return contexts()->credentials.id(); }
Credentials NodeTls::credentials() const { return contexts()->credentials; }
TlsContext NodeTls::server() const { return contexts()->server; }
TlsContext NodeTls::client() const { return contexts()->client; }

void NodeTls::replace(Credentials credentials) {
  auto fresh = make(std::move(credentials));
  const std::lock_guard lock(mutex_);
  contexts_ = std::move(fresh);
}

std::shared_ptr<const NodeTls::Contexts> NodeTls::make(Credentials credentials) const {
  const TlsContext server = new_context(verify_member, roster_), client = new_context(verify_member, roster_);
  prove(server.get(), credentials);
  prove(client.get(), credentials);
  offer(client.get(), kLinkAlpn);
  SSL_CTX_set_alpn_select_cb(server.get(), select_protocol, nullptr);
  // The authority's certificate goes along for those who know only its hash.
  openssl_must(SSL_CTX_add1_chain_cert(server.get(), credentials.authority.get()) == 1, "chain");
  return std::make_shared<const Contexts>(Contexts{std::move(credentials), server, client});
}

std::shared_ptr<const NodeTls::Contexts> NodeTls::contexts() const {
  const std::lock_guard lock(mutex_);
  return contexts_;
}

TlsContext join_context(const std::string& authority_hash, std::string* other) {
  TlsContext context = new_context(
      verify_by_hash, std::make_shared<const WantedAuthority>(WantedAuthority{authority_hash, other}));
  offer(context.get(), kJoinAlpn);
  return context;
}

void allow_join(SSL* ssl, bool allowed) {
  static char yes;
  SSL_set_app_data(ssl, allowed ? &yes : nullptr);
}

}  // namespace butterfly::cluster
