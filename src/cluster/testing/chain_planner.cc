#include "cluster/testing/chain_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "cluster/partition/partitioner.h"

namespace butterfly::cluster::testing {
namespace {

constexpr LinkSpec kUnmeasured{.latency_s = 200e-6, .bandwidth = 110e6};
// Not zero, so that a plan exists where there is no other way.
constexpr double kBrokenBandwidth = 1;
// A stage that needs so many times its longest predicted step has stopped, not slowed down.
constexpr double kStallFactor = 5;
constexpr Duration kStallMax = std::chrono::minutes(30);

ClusterSpec cluster_for(const PlanQuestion& question, DType type, uint64_t reserve_bytes) {
  ClusterSpec cluster;
  for (const PlanNode& node : question.nodes) {
    const uint64_t free = node.ram_free_bytes > reserve_bytes ? node.ram_free_bytes - reserve_bytes : 0;
    // By key: names need not be unique.
    cluster.nodes.push_back(node_spec(node.capabilities, node.id.key, type, free));
    if (node.id == question.coordinator) cluster.coordinator = cluster.nodes.size() - 1;
  }
  cluster.connect_all(kUnmeasured);
  const auto index = [&](const std::string& key) { return cluster.find(key); };
  for (const auto& [pair, figures] : question.links) {
    const auto from = index(pair.first), to = index(pair.second);
    if (from && to && figures.bandwidth > 0) cluster.link(*from, *to) = figures.spec();
  }
  for (const auto& [a, b] : question.broken) {
    const auto from = index(a), to = index(b);
    if (!from || !to) continue;
    cluster.link(*from, *to).bandwidth = kBrokenBandwidth;
    cluster.link(*to, *from).bandwidth = kBrokenBandwidth;
  }
  return cluster;
}

Placement placement_of(const PlanQuestion& question, const Problem& problem, const PlannedChain& planned) {
  Placement placement;
  placement.pieces = static_cast<uint32_t>(problem.pieces());
  for (size_t i = 0; i < planned.plan.stages.size(); ++i) {
    const Stage& stage = planned.plan.stages[i];
    const StagePrediction& predicted = planned.prediction.stages[i];
    StagePlacement row;
    row.members = {{.node = question.nodes[stage.nodes.front()].id,
                    .memory_bytes = predicted.weight_bytes + predicted.kv_bytes,
                    .predicted_s = predicted.seconds}};
    row.begin = static_cast<uint32_t>(stage.begin);
    row.end = static_cast<uint32_t>(stage.end);
    const double longest_s = std::max(predicted.seconds, predicted.prefill_s) * kStallFactor;
    const double most_s = std::chrono::duration<double>(kStallMax).count();
    row.stall_after =
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::min(longest_s, most_s)));
    placement.stages.push_back(std::move(row));
  }
  if (planned.prediction.latency_s > 0) placement.tokens_per_s = 1 / planned.prediction.latency_s;
  placement.words = fmt::format("{}: {}", planned.strategy, fmt::join(planned.reasons, "; "));
  return placement;
}

}  // namespace

PlanFunction chain_planner(PieceList pieces, DType type, PlanOptions options, uint64_t reserve_bytes) {
  const auto list = std::make_shared<const PieceList>(std::move(pieces));
  options.group_size_max = 1;  // a stage is one node here
  return [list, type, options, reserve_bytes](const PlanQuestion& question) -> Result<Placement> {
    try {
      if (question.nodes.empty()) return {Errc::kNotFound, "no node is up"};
      const Problem problem(*list, cluster_for(question, type, reserve_bytes), options);
      const auto strategies = partition_strategies();
      const auto able = std::find_if(strategies.begin(), strategies.end(),
                                     [&](const auto& row) { return row.why_not(problem).empty(); });
      if (able == strategies.end()) return {Errc::kUnsupported, "no strategy can plan this"};
      const Result<PlannedChain> planned = make_plan(problem, *able, false);
      if (!planned.ok()) return planned.status();
      return placement_of(question, problem, *planned);
    } catch (const Error& error) {
      return {error.code(), error.what()};
    }
  };
}

}  // namespace butterfly::cluster::testing
