#include "runtime/planning/plan_model.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "cluster/partition/bounds.h"
#include "runtime/planning/placed_plan.h"

namespace butterfly::runtime {
namespace {

using cluster::Objective;
using cluster::Problem;

// Batches on their way at once that are worth a try: with more than stages there are always enough to fill
// them.
std::vector<size_t> batch_counts(size_t streams, size_t nodes) {
  std::vector<size_t> counts;
  for (size_t n : {1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128})
    if (n <= std::min(streams, 2 * nodes)) counts.push_back(n);
  return counts;
}

Problem problem_for(const model::ModelFile& file, const cluster::ClusterSpec& cluster,
                    const PlanRequest& request, size_t batches) {
  PlanWorkload workload = request.workload;
  cluster::PlanOptions options = request.options;
  workload.shares |= options.group_size_max > 1 || has_groups(options.custom);
  if (batches > 0) {
    workload.batch = (workload.streams + batches - 1) / batches;
    options.batches_in_flight = (workload.streams + workload.batch - 1) / workload.batch;
  }
  return Problem(plan_pieces(file, workload), cluster, options);
}

// Large clusters are searched once, with as many batches as nodes.
constexpr size_t kNodesToTryAll = 14;

}  // namespace

ModelPlan plan_model(const model::ModelFile& file, const cluster::ClusterSpec& cluster,
                     const PlanRequest& request) {
  const bool choose = request.choose_batch && request.options.objective == Objective::kThroughput;
  std::optional<Problem> problem;
  if (!choose) {
    problem.emplace(problem_for(file, cluster, request, 0));
  } else if (cluster.size() > kNodesToTryAll) {
    problem.emplace(problem_for(file, cluster, request, std::min(request.workload.streams, cluster.size())));
  } else {
    double most = -1;
    for (size_t batches : batch_counts(request.workload.streams, cluster.size())) {
      Problem candidate = problem_for(file, cluster, request, batches);
      const auto planned = make_plan(candidate, cluster::default_strategy());
      const double rate = planned ? planned->prediction.tokens_per_s : 0;
      if (rate <= most) continue;
      most = rate;
      problem.emplace(std::move(candidate));
    }
  }
  ModelPlan out{.problem = std::move(*problem), .outcomes = {}};
  for (const cluster::PartitionStrategy* strategy : request.strategies) {
    const auto start = std::chrono::steady_clock::now();
    Result<cluster::PlannedChain> planned = make_plan(out.problem, *strategy, false);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    out.outcomes.push_back({std::string(strategy->name), std::move(planned), took.count()});
  }
  // What one strategy proved holds for all.
  double bound = 0;
  for (const StrategyOutcome& outcome : out.outcomes)
    if (outcome.planned) bound = std::max(bound, outcome.planned->lower_bound_s);
  if (bound == 0 && out.problem.units().size() == out.problem.nodes())
    bound = cluster::lower_bound(out.problem);
  for (StrategyOutcome& outcome : out.outcomes) {
    if (!outcome.planned || bound == 0) continue;
    outcome.planned->lower_bound_s = std::min(bound, outcome.planned->objective_s);
    outcome.planned->gap = outcome.planned->objective_s / outcome.planned->lower_bound_s - 1;
  }
  return out;
}

}  // namespace butterfly::runtime
