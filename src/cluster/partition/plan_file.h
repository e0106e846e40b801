// Plans as people write them down, for the strategy `custom`: a TOML file of stages. docs/planner.md has an
// example.
#pragma once
#include <filesystem>
#include <string_view>

#include "cluster/cost/plan.h"
#include "cluster/node/cluster_spec.h"

namespace butterfly::cluster {

// [[stage]] with `node` (or `nodes`, a group) and `pieces`, a count. Throws Error naming file, line, key,
// expected and found. `name` is for messages.
Plan parse_plan(std::string_view text, std::string_view name, const ClusterSpec& cluster);
Plan read_plan(const std::filesystem::path& path, const ClusterSpec& cluster);

}  // namespace butterfly::cluster
