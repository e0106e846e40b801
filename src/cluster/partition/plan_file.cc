#include "cluster/partition/plan_file.h"

#include <algorithm>

#include "base/mapped_file.h"
#include "base/toml_table.h"

namespace butterfly::cluster {

size_t WrittenPlan::pieces() const {
  size_t sum = 0;
  for (const Stage& stage : stages) sum += stage.pieces;
  return sum;
}

WrittenPlan parse_written_plan(std::string_view text, std::string_view name) {
  const toml::table parsed = parse_toml(text, name);
  TomlTable file(parsed, name);
  WrittenPlan plan{std::string(name), {}};
  for (TomlTable& table : file.tables("stage")) {
    WrittenPlan::Stage& stage = plan.stages.emplace_back();
    stage.line = table.line_of(table.has("node") ? "node" : "nodes");
    if (table.has("node"))
      stage.nodes = {table.string("node")};
    else
      stage.nodes = table.strings("nodes");
    if (stage.nodes.empty()) table.wrong("nodes", "the names of its nodes");
    stage.pieces = table.count_or("pieces", 1, 0);
    if (stage.pieces == 0) table.wrong("pieces", "how many pieces the stage has");
    table.no_more_keys();
  }
  file.no_more_keys();
  if (plan.stages.empty()) fail(Errc::kInvalidArgument, "{}: expected at least one [[stage]]", name);
  return plan;
}

WrittenPlan read_written_plan(const std::filesystem::path& path) {
  return parse_written_plan(text_of_file(path), path.string());
}

Plan parse_plan(std::string_view text, std::string_view name, const ClusterSpec& cluster) {
  Plan plan;
  size_t begin = 0;
  for (const WrittenPlan::Stage& written : parse_written_plan(text, name).stages) {
    Stage& stage = plan.stages.emplace_back();
    for (const std::string& node : written.nodes) {
      const auto found = std::ranges::find(cluster.nodes, node, &NodeSpec::name);
      if (found == cluster.nodes.end())
        fail(Errc::kInvalidArgument, "{}:{}: node: expected the name of a node, found '{}'", name,
             written.line, node);
      stage.nodes.push_back(static_cast<size_t>(found - cluster.nodes.begin()));
    }
    stage.begin = begin;
    stage.end = begin += written.pieces;
  }
  return plan;
}

Plan read_plan(const std::filesystem::path& path, const ClusterSpec& cluster) {
  return parse_plan(text_of_file(path), path.string(), cluster);
}

}  // namespace butterfly::cluster
