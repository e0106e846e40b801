// Clusters as people write them down: a TOML file of machines and links. docs/planner.md has an example.
#pragma once
#include <filesystem>
#include <string_view>

#include "cluster/cost/plan.h"
#include "cluster/node/cluster_spec.h"

namespace butterfly::cluster {

// Throws Error naming file, line, key, expected and found. `name` is for messages.
ClusterSpec parse_cluster(std::string_view text, std::string_view name);
ClusterSpec read_cluster(const std::filesystem::path& path);

// A plan of one's own for the strategy `custom`: [[stage]] with `node` (or `nodes`, a group) and `pieces`, a
// count.
Plan parse_plan(std::string_view text, std::string_view name, const ClusterSpec& cluster);
Plan read_plan(const std::filesystem::path& path, const ClusterSpec& cluster);

}  // namespace butterfly::cluster
