#include "runtime/planning/placed_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cluster/member/health.h"

namespace butterfly::runtime {
namespace {

constexpr Duration kStallLeast = std::chrono::seconds(3);
constexpr double kStallFactor = 6;  // times the longest step, as predicted

// How long a stage may work without progress, whose longest step is predicted to take so many seconds.
Duration stall_limit(double longest_s) {
  const auto longest = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::min(kStallFactor * longest_s, 1e3)));
  return std::clamp<Duration>(longest, kStallLeast, cluster::kStallMost);
}

// Seconds less than at the sustained rate, of a stage that rests between its steps: its node has a quota on
// CPU time and finds it unused (cpu_share.h).
double saved_by_rest(const cluster::Capabilities& node, double sustained_s) {
  const double share = std::clamp(node.cpu_share, 1e-3, 1.0);
  return std::min(node.burst_s * (1 / share - 1), sustained_s * (1 - share));
}

// Of its members whoever saves least: they wait for each other.
double saved_by_rest(const cluster::Stage& stage, const NodeTable& table, double sustained_s) {
  double saved_s = sustained_s;
  for (const size_t node : stage.nodes)
    saved_s = std::min(saved_s, saved_by_rest(table.nodes[node].capabilities, sustained_s));
  return saved_s;
}

uint32_t units_of(double share, const cluster::Problem& problem) {
  return static_cast<uint32_t>(std::lround(share * static_cast<double>(problem.list().share_units)));
}

std::vector<cluster::StageMember> members_of(const cluster::Stage& stage, const cluster::Problem& problem,
                                             const NodeTable& table, double seconds) {
  std::vector<cluster::StageMember> members;
  const auto units = static_cast<uint32_t>(problem.list().share_units);
  uint32_t next = 0;
  for (size_t i = 0; i < stage.nodes.size(); ++i) {
    const double share = stage.nodes.size() == 1 ? 1 : stage.shares[i];
    cluster::StageMember& member = members.emplace_back();
    member.node = table.nodes[stage.nodes[i]].id;
    member.memory_bytes = problem.member_bytes(share, stage.begin, stage.end);
    member.predicted_s = seconds;
    if (stage.nodes.size() == 1) continue;
    const uint32_t end = next + units_of(share, problem);
    for (cluster::ShareRange& range : member.share.ranges) range = {next, end, units};
    next = end;
  }
  return members;
}

// Units of a member that has the same part of everything; 0: it has not.
uint32_t even_units(const cluster::Share& share, uint32_t units) {
  for (const cluster::ShareRange& range : share.ranges)
    if (range.units != units || !(range == share.ranges.front())) return 0;
  return share.ranges.front().end - share.ranges.front().begin;
}

}  // namespace

cluster::Placement placement_of(const cluster::Plan& plan, const cluster::Problem& problem,
                                const NodeTable& table) {
  const cluster::Prediction prediction = cluster::predict(problem, plan);
  cluster::Placement placement;
  placement.pieces = static_cast<uint32_t>(problem.pieces());
  // With one stream a node rests while others work; no quota gives more than its share over a whole round.
  double latency_s = prediction.latency_s, longest_s = 0;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const cluster::Stage& stage = plan.stages[i];
    const cluster::StagePrediction& expected = prediction.stages[i];
    longest_s = std::max(longest_s, expected.seconds);
    const double saved = plan.stages.size() > 1 ? saved_by_rest(stage, table, expected.seconds) : 0;
    latency_s -= saved;
    const double seconds = expected.seconds - saved;
    placement.stages.push_back({.members = members_of(stage, problem, table, seconds),
                                .begin = static_cast<uint32_t>(stage.begin),
                                .end = static_cast<uint32_t>(stage.end),
                                .stall_after = stall_limit(expected.prefill_s + seconds)});
  }
  latency_s = std::max(latency_s, longest_s);
  placement.tokens_per_s = problem.options().objective == cluster::Objective::kThroughput
                               ? prediction.tokens_per_s
                           : latency_s > 0 ? 1 / latency_s
                                           : 0;
  return placement;
}

std::optional<cluster::Plan> plan_of(const cluster::Placement& placement, const cluster::Problem& problem,
                                     const NodeTable& table) {
  if (placement.pieces != problem.pieces()) return std::nullopt;
  const auto units = static_cast<uint32_t>(problem.list().share_units);
  cluster::Plan plan;
  for (const cluster::StagePlacement& stage : placement.stages) {
    cluster::Stage& planned = plan.stages.emplace_back();
    planned.begin = stage.begin;
    planned.end = stage.end;
    for (const cluster::StageMember& member : stage.members) {
      const auto node = std::ranges::find(table.nodes, member.node, &cluster::PlanNode::id);
      const uint32_t mine = stage.members.size() == 1 ? units : even_units(member.share, units);
      if (node == table.nodes.end() || mine == 0) return std::nullopt;
      planned.nodes.push_back(static_cast<size_t>(node - table.nodes.begin()));
      planned.shares.push_back(static_cast<double>(mine) / units);
    }
  }
  return plan;
}

bool has_groups(const cluster::Plan& plan) {
  return std::ranges::any_of(plan.stages, [](const cluster::Stage& stage) { return stage.nodes.size() > 1; });
}

std::string group_words(const cluster::Plan& plan, const cluster::Problem& problem) {
  std::string words;
  for (const cluster::Stage& stage : plan.stages) {
    if (stage.nodes.size() < 2) continue;
    words += words.empty() ? "" : "; ";
    words += plan.stages.size() == 1 ? "every layer is shared: "
                                     : fmt::format("pieces {} to {} are shared: ", stage.begin, stage.end);
    for (size_t i = 0; i < stage.nodes.size(); ++i)
      words += fmt::format("{}{} {}/{}", i == 0 ? "" : ", ", problem.cluster().nodes[stage.nodes[i]].name,
                           units_of(stage.shares[i], problem), problem.list().share_units);
  }
  return words;
}

}  // namespace butterfly::runtime
