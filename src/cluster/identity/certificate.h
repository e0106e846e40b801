// Certificates of nodes and of the cluster's authority, and what a node sends to get one.
#pragma once
#include <openssl/types.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/identity/key.h"
#include "cluster/identity/node_id.h"
#include "cluster/identity/wall_time.h"

using X509_REQ = struct X509_req_st;  // openssl/types.h has all but this one

namespace butterfly::cluster {

// Names of nodes: 1 to 63 of letters, digits, '-', '_' and '.', first a letter or digit. The words of a
// complaint, or nothing.
std::string why_not_node_name(std::string_view name);

// X.509. Copies share it. Immutable, so any thread may read it.
class Certificate {
 public:
  explicit Certificate(std::shared_ptr<X509> x509) : x509_(std::move(x509)) {}
  // `place` begins the message of an error: kCorrupt.
  static Certificate from_pem(const std::string& text, std::string_view place);
  static Result<Certificate> from_der(std::span<const std::byte> der);
  std::string to_pem() const;
  std::vector<std::byte> to_der() const;

  // Common name and fingerprint of the key.
  NodeId node() const;
  // Key of the node that may give this one orders, as the authority says; empty when it says nothing.
  std::string coordinator() const;
  // Of the whole certificate: what a join line holds of the authority's.
  std::string sha256() const;
  WallTime not_before() const;
  WallTime not_after() const;
  // By signature alone; dates are looked at when a link opens.
  bool signed_by(const Certificate& authority) const;
  // Whether the owner of this certificate's key signed the text: PrivateKey::sign().
  bool signed_text(std::string_view text, std::string_view signature) const;
  X509* get() const { return x509_.get(); }

 private:
  std::shared_ptr<X509> x509_;
};

// A public key and the name that its owner would like, signed with the private key (PKCS #10). Immutable.
class CertificateRequest {
 public:
  static CertificateRequest make(const PrivateKey& key, const std::string& name);
  // From a peer: kCorrupt unless it is well-formed, Ed25519, signed by its own key and bears a name that is
  // allowed.
  static Result<CertificateRequest> from_der(std::span<const std::byte> der);
  std::vector<std::byte> to_der() const;

  NodeId node() const;
  X509_REQ* get() const { return request_.get(); }

 private:
  explicit CertificateRequest(std::shared_ptr<X509_REQ> request) : request_(std::move(request)) {}
  std::shared_ptr<X509_REQ> request_;
};

// Signs itself: may sign nodes, and nothing below them.
Certificate make_authority_certificate(const PrivateKey& key, const std::string& cluster_name, WallTime now,
                                       std::chrono::seconds life);

// For both ends of TLS; the node's name is common name and DNS name, its fingerprint a URI
// (butterfly:node:<key>), and so is the coordinator's, if there is one (butterfly:coordinator:<key>). Valid
// from an hour before `now`, for machines whose clocks are behind.
Certificate make_node_certificate(const Certificate& authority, const PrivateKey& authority_key,
                                  const NodeId& node, EVP_PKEY* node_key, const std::string& coordinator,
                                  WallTime now, std::chrono::seconds life);

}  // namespace butterfly::cluster
