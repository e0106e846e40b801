// Clusters as people write them down: a TOML file of machines and links. docs/planner.md has an example.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "cluster/node/cluster_spec.h"

namespace butterfly {
class TomlTable;
}  // namespace butterfly

namespace butterfly::cluster {

// Throws Error naming file, line, key, expected and found. `name` is for messages.
ClusterSpec parse_cluster(std::string_view text, std::string_view name);
ClusterSpec read_cluster(const std::filesystem::path& path);

// The index of the node with this name, for other files about the same cluster; `key` of `table` says so.
// Throws Error as above.
size_t node_named(const ClusterSpec& cluster, const TomlTable& table, std::string_view key,
                  const std::string& name);

}  // namespace butterfly::cluster
