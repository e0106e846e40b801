// Certificates renew themselves: a node asks over a link on which it has proved who it is.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "cluster/identity/authority.h"
#include "cluster/identity/roster.h"

namespace butterfly::cluster {

// When a third of its life is left or less.
bool renewal_due(const Certificate& certificate, WallTime now);

// Bodies of the two messages; who carries them is the caller's choice. The key stays the same, for it is who
// the node is.
std::vector<std::byte> renewal_request(const Credentials& credentials);

// Where the authority is. `peer` is the link's, by its certificate. kInvalidArgument when the request is for
// another key or name, or the node was removed; kCorrupt when it cannot be read.
Result<std::vector<std::byte>> answer_renewal(const Authority& authority, const Roster& roster,
                                              const NodeId& peer, std::span<const std::byte> request,
                                              WallTime now);

// The credentials with the new certificate: to be saved (save_certificates) and given to new links
// (NodeTls::replace). kCorrupt when it is not ours, not signed by the authority or ends no later than the old
// one.
Result<Credentials> accept_renewal(const Credentials& old, std::span<const std::byte> reply);

}  // namespace butterfly::cluster
