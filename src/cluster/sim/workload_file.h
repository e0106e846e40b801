// Workloads as people write them down: a TOML file. docs/planner.md has an example.
#pragma once
#include <filesystem>
#include <string_view>

#include "cluster/sim/sim_spec.h"

namespace butterfly::cluster {

// Stages are named as in the cluster: by node. Throws Error naming file, line, key, expected and found.
Workload parse_workload(std::string_view text, std::string_view name, const SimCluster& cluster);
Workload read_workload(const std::filesystem::path& path, const SimCluster& cluster);

}  // namespace butterfly::cluster
