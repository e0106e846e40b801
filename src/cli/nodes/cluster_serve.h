// `serve` on a cluster: of the machines that joined, or of processes of this one.
#pragma once
#include <memory>

#include "runtime/nodes/cluster_start.h"
#include "runtime/nodes/local_cluster.h"
#include "server/settings/settings.h"

namespace butterfly::cli {

// The cluster that the settings ask for; null: none. For local nodes it sets the threads of each. Throws
// Error for settings that do not go together, and for a machine on which no cluster was made.
std::shared_ptr<runtime::ClusterStart> cluster_start(server::Settings& settings,
                                                     std::shared_ptr<runtime::LeadShell> lead = nullptr);

// The words after the program's name that make it a node of a local cluster.
std::vector<std::string> join_arguments(const runtime::LocalNodeStart& node);

// The cluster of `init`, from the state folder of this machine. `listen`: empty: the usual port.
std::shared_ptr<runtime::ClusterStart> joined_cluster(const std::string& state, const std::string& listen,
                                                      bool discoverable = true,
                                                      std::shared_ptr<runtime::LeadShell> lead = nullptr);

}  // namespace butterfly::cli
