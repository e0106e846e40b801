// Nodes that could take part in a training job, and links to them.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

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

// The files of a model by the id of their contents, on this machine from then on: what open_model() takes.
// Throws Error.
using FetchModel = std::function<std::filesystem::path(const std::string& id)>;

// What stands before such an id where a run's settings would have the path of its base model.
inline constexpr std::string_view kFetchedBase = "fetched:";

}  // namespace butterfly::runtime
