// `join`: a node without certificate asks a cluster for one.
#pragma once
#include <string>

#include "base/clock.h"
#include "cluster/identity/credentials.h"
#include "cluster/identity/join_token.h"

namespace butterfly::cluster {

// Connects to `address` ("host:port"), believes it only when its chain ends in the authority of the token,
// and keeps what it gets in `folder`. The key is made here and kept before anything is sent, so a join whose
// answer was lost can be tried again with the same token.
//
// Throws Error: kInvalidArgument (already in a cluster, name not allowed, refused by the cluster, another
// cluster than the token's), kTimeout, kPeerLost, kCorrupt.
Credentials join_cluster(const StateFolder& folder, const std::string& address, const JoinToken& token,
                         const std::string& node_name, Duration timeout);

}  // namespace butterfly::cluster
