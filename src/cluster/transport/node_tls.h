// What the links of one node need of TLS: who it is, whom it believes, whom no longer.
#pragma once
#include <openssl/types.h>

#include <memory>
#include <mutex>
#include <string>

#include "cluster/identity/credentials.h"
#include "cluster/identity/roster.h"
#include "cluster/transport/open_links.h"

namespace butterfly::cluster {

// TLS 1.3 and nothing older. Both sides show certificates of the cluster's authority; a removed key is
// refused with an alert. ALPN says what a connection is for, and only that of joining may come without a
// certificate.
inline constexpr std::string_view kLinkProtocol = "bf-link";
inline constexpr std::string_view kJoinProtocol = "bf-join";

using TlsContext = std::shared_ptr<SSL_CTX>;

// Whether a link was refused because the other end has this node's certificate on its list of the removed.
inline bool says_removed(const Status& refusal) {
  return refusal.text().find("certificate revoked") != std::string::npos;  // OpenSSL's name of the alert
}

// Thread-safe. Links share it: it must outlive nothing.
class NodeTls {
 public:
  // `roster` may be null: then nobody is removed.
  explicit NodeTls(Credentials credentials, std::shared_ptr<const Roster> roster = nullptr);

  NodeId self() const;
  Credentials credentials() const;
  // Renewed ones. New links use them; open links stay.
  void replace(Credentials credentials);

  TlsContext server() const;
  TlsContext client() const;
  bool is_removed(const std::string& key) const { return roster_ != nullptr && roster_->is_removed(key); }
  const std::shared_ptr<OpenLinks>& open_links() const { return open_links_; }

 private:
  struct Contexts {
    Credentials credentials;
    TlsContext server, client;
  };
  std::shared_ptr<const Contexts> make(Credentials credentials) const;
  std::shared_ptr<const Contexts> contexts() const;

  const std::shared_ptr<const Roster> roster_;
  const std::shared_ptr<OpenLinks> open_links_ = std::make_shared<OpenLinks>();
  mutable std::mutex mutex_;
  std::shared_ptr<const Contexts> contexts_;
};

// For a node that has no certificate yet: believes a server whose chain ends in the certificate with this
// SHA-256. A server of another cluster leaves the hash of its authority in `other`, which outlives the
// context.
TlsContext join_context(const std::string& authority_hash, std::string* other = nullptr);

// On the server's side of a handshake: whether it may be one for joining. Refused unless allowed.
void allow_join(SSL* ssl, bool allowed);

}  // namespace butterfly::cluster
