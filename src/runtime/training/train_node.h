// Nodes that could take part in a training job, and links to them.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "cluster/identity/node_id.h"
#include "cluster/transport/link.h"

namespace butterfly::runtime {

struct TrainNode {
  cluster::NodeId node;
  std::string address;
};

// Opens a link for training to a member: address, and the key it must have. From any thread.
using ConnectPeer =
    std::function<Result<std::unique_ptr<cluster::Link>>(const std::string& address, const std::string& key)>;

}  // namespace butterfly::runtime
