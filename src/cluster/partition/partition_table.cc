#include <algorithm>

#include "base/error.h"
#include "cluster/cost/tied_pieces.h"
#include "cluster/partition/bounds.h"
#include "cluster/partition/partitioner.h"

namespace butterfly::cluster {
namespace {

constexpr PartitionStrategy kStrategies[] = {
    {"optimal", "best subset, order and cuts, with a proven bound", NodeChoice::kSearched, always,
     partition_optimal},
    {"annealing", "random changes that keep stages whole, cooled down", NodeChoice::kSearched,
     annealing_why_not, partition_annealing},
    {"balanced", "all nodes in their order, by speed, up to their memory", NodeChoice::kAll, always,
     partition_balanced},
    {"uniform", "all nodes in their order, equal counts", NodeChoice::kAll, always, partition_uniform},
    {"custom", "the stages of a file", NodeChoice::kGiven, custom_why_not, partition_custom},
};

}  // namespace

std::string always(const Problem&) { return {}; }

std::span<const PartitionStrategy> partition_strategies() { return kStrategies; }

const PartitionStrategy& default_strategy() { return kStrategies[0]; }

const PartitionStrategy& first_strategy(NodeChoice nodes) {
  return *std::ranges::find(kStrategies, nodes, &PartitionStrategy::nodes);
}

std::string strategy_names() {
  std::string names;
  for (const PartitionStrategy& strategy : kStrategies)
    if (strategy.nodes != NodeChoice::kGiven)
      names += (names.empty() ? "" : ", ") + std::string(strategy.name);
  return names;
}

const PartitionStrategy& find_strategy(std::string_view name) {
  std::string known;
  for (const PartitionStrategy& strategy : kStrategies) {
    if (strategy.name == name) return strategy;
    known += known.empty() ? std::string(strategy.name) : fmt::format(", {}", strategy.name);
  }
  fail(Errc::kInvalidArgument, "strategy '{}': expected one of {}", name, known);
}

namespace {

// Searches see pieces that stay together as one.
Result<PlannedChain> make_tied_plan(const Problem& problem, const TiedPieces& tied,
                                    const PartitionStrategy& strategy, bool with_bound) {
  PlanOptions options = problem.options();
  std::string why;
  const auto custom = tied.together(options.custom, why);
  if (!custom) return {Errc::kInvalidArgument, fmt::format("{}: {}", strategy.name, why)};
  options.custom = *custom;
  const Problem joined(tied.joined(), problem.cluster(), std::move(options));
  Result<PlannedChain> planned = make_plan(joined, strategy, with_bound);
  if (!planned) return planned;
  planned->plan = tied.apart(std::move(planned->plan));
  planned->prediction = predict(problem, planned->plan);
  return planned;
}

}  // namespace

Result<PlannedChain> make_plan(const Problem& problem, const PartitionStrategy& strategy, bool with_bound) {
  if (const TiedPieces tied(problem.list()); tied.any())
    return make_tied_plan(problem, tied, strategy, with_bound);
  if (std::string why = strategy.why_not(problem); !why.empty())
    return {Errc::kUnsupported, fmt::format("{}: {}", strategy.name, why)};
  Result<Partition> partition = strategy.partition(problem);
  if (!partition)
    return {partition.status().code(), fmt::format("{}: {}", strategy.name, partition.status().text())};
  if (std::string why = why_not_fit(problem, partition->plan); !why.empty())
    return {Errc::kOutOfMemory, fmt::format("{}: {}", strategy.name, why)};
  PlannedChain out;
  out.strategy = strategy.name;
  out.plan = std::move(partition->plan);
  out.prediction = predict(problem, out.plan);
  out.objective_s = objective_seconds(problem, out.prediction);
  if (!(out.objective_s < kNever))
    return {Errc::kNotFound,
            fmt::format("{}: a token takes {:.1f} ms, the limit is {:.1f} ms", strategy.name,
                        out.prediction.latency_s * 1e3, problem.options().latency_limit_s * 1e3)};
  // Groups can be faster than any single node.
  const bool grouped = problem.units().size() > problem.nodes();
  if (partition->lower_bound_s)
    out.lower_bound_s = *partition->lower_bound_s;
  else if (with_bound)
    out.lower_bound_s = grouped ? sharing_bound(problem) : lower_bound(problem);
  // The same sums in another order differ in the last digits.
  out.lower_bound_s = std::min(out.lower_bound_s, out.objective_s);
  out.gap = out.lower_bound_s > 0 ? out.objective_s / out.lower_bound_s - 1 : kNever;
  out.reasons = std::move(partition->reasons);
  return out;
}

}  // namespace butterfly::cluster
