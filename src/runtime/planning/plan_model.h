// Plans a model on a cluster: pieces from the graph, problem, strategies, and the batch size that serves
// streams best.
#pragma once
#include <vector>

#include "cluster/partition/partitioner.h"
#include "runtime/planning/plan_pieces.h"

namespace butterfly::runtime {

struct PlanRequest {
  PlanWorkload workload;
  bool choose_batch =
      false;  // for throughput: try batch sizes and keep the best; workload.batch is then ignored
  cluster::PlanOptions options;
  std::vector<const cluster::PartitionStrategy*> strategies = {&cluster::default_strategy()};
};

struct StrategyOutcome {
  std::string strategy;
  Result<cluster::PlannedChain> planned;  // or why not, in words
  double seconds = 0;                     // the strategy took
};

struct ModelPlan {
  cluster::Problem problem;
  std::vector<StrategyOutcome> outcomes;  // in the order asked for
};

// Throws Error for requests that make no sense; strategies that find nothing say so in their outcome.
ModelPlan plan_model(const model::ModelFile& file, const cluster::ClusterSpec& cluster,
                     const PlanRequest& request);

}  // namespace butterfly::runtime
