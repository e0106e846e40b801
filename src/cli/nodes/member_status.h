// The state of the cluster as a machine can get it that does not coordinate it: from the coordinator, over
// the network, with this node's certificate.
#pragma once
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/nodes/node_view.h"
#include "cluster/member/status.h"

namespace butterfly::cli {

struct MemberStatus {
  std::string coordinator;                 // address that was asked
  Result<cluster::ClusterStatus> cluster;  // or why not
  std::optional<NodeView> view;            // this node's own, if it has run here
};

// Nothing where this machine has joined no cluster. `state`: as the flag says it. Blocks for some seconds at
// most.
std::optional<MemberStatus> member_status(const std::string& state);

}  // namespace butterfly::cli
