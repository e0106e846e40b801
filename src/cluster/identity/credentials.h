// What a node proves itself with: its key, its certificate, and the authority that it and its peers believe.
#pragma once
#include "cluster/identity/certificate.h"
#include "cluster/identity/key.h"
#include "cluster/identity/state_folder.h"

namespace butterfly::cluster {

struct Credentials {
  Certificate authority;
  Certificate own;
  PrivateKey key;

  NodeId id() const { return own.node(); }
};

// Names of the files in the state folder.
inline constexpr const char* kNodeKeyFile = "node.key";
inline constexpr const char* kNodeCertificateFile = "node.crt";
inline constexpr const char* kAuthorityCertificateFile = "ca.crt";
inline constexpr const char* kAuthorityKeyFile = "ca.key";  // only where the cluster was made

// Whether this node belongs to a cluster: the files are there.
bool has_credentials(const StateFolder& folder);

// kNotFound when the node belongs to no cluster yet, kCorrupt when files do not fit together.
Credentials load_credentials(const StateFolder& folder);

// Certificates of a node whose key is in the folder already. The node's own comes last: before, the node
// belongs to no cluster.
void save_certificates(const StateFolder& folder, const Certificate& authority, const Certificate& own);

// The key of this folder, made and kept when there is none.
PrivateKey load_or_make_key(const StateFolder& folder);

}  // namespace butterfly::cluster
