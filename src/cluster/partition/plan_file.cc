#include "cluster/partition/plan_file.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/json_text.h"
#include "base/mapped_file.h"
#include "base/toml_table.h"

namespace butterfly::cluster {

size_t WrittenPlan::pieces() const {
  size_t sum = 0;
  for (const Stage& stage : stages) sum += stage.pieces;
  return sum;
}

std::vector<double> WrittenPlan::Stage::fractions() const {
  std::vector<double> parts;
  for (const size_t share : shares) parts.push_back(static_cast<double>(share) / kWrittenUnits);
  return parts;
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
    if (table.has("shares")) {
      stage.shares = table.counts("shares", 1);
      if (stage.shares.size() != stage.nodes.size() ||
          std::accumulate(stage.shares.begin(), stage.shares.end(), size_t{0}) != kWrittenUnits)
        table.wrong("shares", fmt::format("eighths of each layer for each of its {} nodes, {} together",
                                          stage.nodes.size(), kWrittenUnits));
    }
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
    stage.shares = written.fractions();
    stage.begin = begin;
    stage.end = begin += written.pieces;
  }
  return plan;
}

std::string plan_text(const Plan& plan, const ClusterSpec& cluster) {
  const auto quoted = [&](size_t node) { return json_text(nlohmann::json(cluster.nodes[node].name)); };
  std::string text;
  for (const Stage& stage : plan.stages) {
    const bool shared = stage.nodes.size() > 1;
    std::string nodes, shares;
    for (size_t i = 0; i < stage.nodes.size(); ++i) {
      nodes += (i == 0 ? "" : ", ") + quoted(stage.nodes[i]);
      if (shared)
        shares += fmt::format("{}{}", i == 0 ? "" : ", ",
                              std::lround(stage.shares[i] * static_cast<double>(kWrittenUnits)));
    }
    text += fmt::format(
        "[[stage]]\n{}\n{}pieces = {}\n\n", shared ? fmt::format("nodes = [{}]", nodes) : "node = " + nodes,
        shared ? fmt::format("shares = [{}]  # eighths of each layer\n", shares) : "", stage.size());
  }
  return text;
}

Plan read_plan(const std::filesystem::path& path, const ClusterSpec& cluster) {
  return parse_plan(text_of_file(path), path.string(), cluster);
}

}  // namespace butterfly::cluster
