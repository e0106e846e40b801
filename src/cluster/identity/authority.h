// The cluster's certificate authority: lives in the state folder of the node where the cluster was made. That
// node coordinates, and every certificate says so.
#pragma once
#include <chrono>
#include <string>
#include <string_view>

#include "cluster/identity/credentials.h"

namespace butterfly::cluster {

inline constexpr std::chrono::seconds kAuthorityLife = std::chrono::hours(24 * 3650);
inline constexpr std::chrono::seconds kNodeLife = std::chrono::hours(24 * 90);

// The cluster's certificate authority: its key, in the state folder of the node that made the cluster, and
// what it signs. Immutable once made; whoever has one may sign from any thread.
class Authority {
 public:
  // kInvalidArgument when the folder has one.
  static Authority make(const StateFolder& folder, const std::string& cluster_name, WallTime now,
                        std::chrono::seconds life = kAuthorityLife);
  // kNotFound when this node is not where the cluster was made.
  static Authority load(const StateFolder& folder);
  static bool is_here(const StateFolder& folder);

  const Certificate& certificate() const { return certificate_; }
  // Never beyond the authority's own end; names the key of this folder's node, if it has one, as the
  // coordinator. Whether the node should have a certificate is the caller's question.
  Certificate issue(const CertificateRequest& request, WallTime now,
                    std::chrono::seconds life = kNodeLife) const;
  // Certificate::signed_text() of certificate() says that this comes from here.
  std::string sign(std::string_view text) const { return key_.sign(text); }

 private:
  Authority(Certificate certificate, PrivateKey key, std::string coordinator)
      : certificate_(std::move(certificate)), key_(std::move(key)), coordinator_(std::move(coordinator)) {}
  Certificate certificate_;
  PrivateKey key_;
  std::string coordinator_;
};

// Everything `init` needs: the authority, this node's key and certificate, and its row in the roster. Safe to
// try again after a crash; kInvalidArgument when the folder belongs to a cluster already.
Credentials found_cluster(const StateFolder& folder, const std::string& cluster_name,
                          const std::string& node_name, WallTime now);

}  // namespace butterfly::cluster
