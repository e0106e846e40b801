// What a running node does about its certificate: one call now and then.
#pragma once
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/identity/state_folder.h"
#include "cluster/identity/wall_time.h"
#include "cluster/transport/node_tls.h"

namespace butterfly::cluster {

// Renews the certificate of `tls` when a third of its life is left, on disk and for new links; true when it
// did. Call it at the start and every few hours. Where the authority is in `folder` it signs at once; other
// nodes ask it at `address` ("host:port" of the node that made the cluster). An error leaves all as it was:
// there is time for many more tries.
Result<bool> keep_renewed(const StateFolder& folder, NodeTls& tls, const std::string& address, WallTime now,
                          Duration timeout);

}  // namespace butterfly::cluster
