// Strategies that turn a planning question into a plan. One row each in partition_table.cc.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/cost/prediction.h"

namespace butterfly::cluster {

// What a strategy found.
struct Partition {
  Plan plan;
  std::optional<double> lower_bound_s;  // of the objective, if the strategy proved one
  std::vector<std::string> reasons;     // in words
};

// Which nodes a strategy gives work to.
enum class NodeChoice : uint8_t {
  kSearched,  // those it finds best, in the best order
  kAll,       // every node, in the order of the cluster
  kGiven,     // those that somebody wrote down (PlanOptions::custom)
};

struct PartitionStrategy {
  std::string_view name;
  std::string_view words;
  NodeChoice nodes;
  // Why this strategy cannot answer the question, in words; empty: it can.
  std::string (*why_not)(const Problem& problem);
  // kOutOfMemory when the pieces do not fit by its rule, kNotFound when no plan keeps the latency limit; both
  // in words.
  Result<Partition> (*partition)(const Problem& problem);
};

std::span<const PartitionStrategy> partition_strategies();  // the default first
// Throws Error kInvalidArgument naming those that exist.
const PartitionStrategy& find_strategy(std::string_view name);
const PartitionStrategy& default_strategy();
// The first row with this choice of nodes.
const PartitionStrategy& first_strategy(NodeChoice nodes);
// For help: "optimal, annealing, balanced, uniform"; those that need a file are left out.
std::string strategy_names();

// A plan with all that is known of it.
struct PlannedChain {
  std::string strategy;
  Plan plan;
  Prediction prediction;
  double objective_s = 0;    // what was minimised
  double lower_bound_s = 0;  // no plan does better
  double gap = 0;            // (objective - bound) / bound
  std::vector<std::string> reasons;
};

// Runs the strategy and works out the rest. Without `with_bound` a strategy that proves none has the bound 0,
// and the gap is kNever.
Result<PlannedChain> make_plan(const Problem& problem, const PartitionStrategy& strategy,
                               bool with_bound = true);

// The rows' functions; each file says how.
std::string always(const Problem& problem);
std::string annealing_why_not(const Problem& problem);
std::string custom_why_not(const Problem& problem);
Result<Partition> partition_uniform(const Problem& problem);
Result<Partition> partition_balanced(const Problem& problem);
Result<Partition> partition_annealing(const Problem& problem);
Result<Partition> partition_optimal(const Problem& problem);
Result<Partition> partition_custom(const Problem& problem);

}  // namespace butterfly::cluster
