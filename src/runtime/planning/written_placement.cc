#include "runtime/planning/written_placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"

namespace butterfly::runtime {

void check_written_plan(const cluster::WrittenPlan& plan, size_t pieces, const std::string& coordinator) {
  std::set<std::string> seen;
  for (const auto& stage : plan.stages) {
    if (stage.nodes.size() > cluster::kWrittenUnits)
      fail(Errc::kInvalidArgument,
           "{}:{}: nodes: expected up to {}, a part of each layer for everybody; found {}", plan.name,
           stage.line, cluster::kWrittenUnits, stage.nodes.size());
    for (const std::string& node : stage.nodes)
      if (!seen.insert(node).second)
        fail(Errc::kInvalidArgument, "{}:{}: node: '{}' has a stage already; expected one per node",
             plan.name, stage.line, node);
  }
  if (plan.pieces() != pieces)
    fail(Errc::kInvalidArgument,
         "{}: pieces: expected {} together (embedding, {} blocks and head of this model), found {}",
         plan.name, pieces, pieces - 2, plan.pieces());
  if (const std::string& last = plan.stages.back().nodes[0]; last != coordinator)
    fail(Errc::kInvalidArgument,
         "{}:{}: node: expected '{}' for the last stage{}, found '{}': tokens are chosen where requests come "
         "in, so the head is there (pieces = 1 is enough)",
         plan.name, plan.stages.back().line, coordinator,
         plan.stages.back().nodes.size() > 1 ? ", as its first node" : "", last);
}

Result<cluster::Plan> find_nodes(const cluster::WrittenPlan& written,
                                 const std::vector<cluster::PlanNode>& nodes) {
  cluster::Plan plan;
  std::vector<std::string> here, missing;
  for (const cluster::PlanNode& node : nodes) here.push_back(node.id.name);
  std::ranges::sort(here);
  size_t begin = 0;
  for (const auto& stage : written.stages) {
    cluster::Stage& placed = plan.stages.emplace_back();
    for (const std::string& name : stage.nodes) {
      const auto found =
          std::ranges::find_if(nodes, [&](const cluster::PlanNode& node) { return node.id.name == name; });
      if (found == nodes.end()) missing.push_back(name);
      placed.nodes.push_back(static_cast<size_t>(found - nodes.begin()));
    }
    placed.shares = stage.nodes.size() == 1 ? std::vector{1.0} : stage.fractions();
    placed.begin = begin;
    placed.end = begin += stage.pieces;
  }
  if (missing.empty()) return plan;
  return Status(Errc::kNotFound,
                fmt::format("waiting for {} of {}: not here yet, or held back after a failure; here: {}",
                            fmt::join(missing, ", "), written.name, fmt::join(here, ", ")));
}

}  // namespace butterfly::runtime
