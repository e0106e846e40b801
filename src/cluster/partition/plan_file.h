// Plans as people write them down, for the strategy `custom`: a TOML file of stages. docs/planner.md has an
// example.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/cost/plan.h"
#include "cluster/node/cluster_spec.h"

namespace butterfly::cluster {

// What such a file says, before anybody knows who is there: nodes are names.
struct WrittenPlan {
  struct Stage {
    std::vector<std::string> nodes;  // one, or a group
    std::vector<size_t> shares;      // of a group's nodes, in eighths; empty: as is fastest
    size_t pieces = 0;
    size_t line = 0;  // of the file, for messages

    std::vector<double> fractions() const;  // the shares as parts of one
  };
  std::string name;  // of the file
  std::vector<Stage> stages;

  size_t pieces() const;
};

// Parts that layers are cut into where nodes share them.
inline constexpr size_t kWrittenUnits = 8;

// [[stage]] with `node`, or `nodes` (a group) and perhaps their `shares`, and `pieces`, a count. Throws Error
// naming file, line, key, expected and found. `name` is for messages.
WrittenPlan parse_written_plan(std::string_view text, std::string_view name);
WrittenPlan read_written_plan(const std::filesystem::path& path);

// The same for a cluster whose nodes are known: another name is an error, too.
Plan parse_plan(std::string_view text, std::string_view name, const ClusterSpec& cluster);
Plan read_plan(const std::filesystem::path& path, const ClusterSpec& cluster);

// The file that says the same as this plan.
std::string plan_text(const Plan& plan, const ClusterSpec& cluster);

}  // namespace butterfly::cluster
