// The stages that somebody wrote down.
#include "cluster/partition/partitioner.h"

namespace butterfly::cluster {

std::string custom_why_not(const Problem& problem) {
  return problem.options().custom.stages.empty() ? "no plan was given" : "";
}

Result<Partition> partition_custom(const Problem& problem) {
  Partition out{.plan = problem.options().custom, .lower_bound_s = {}, .reasons = {}};
  predict(problem, out.plan);  // throws, in words, for what is no plan
  for (Stage& stage : out.plan.stages)
    if (stage.shares.empty()) {
      Unit unit = problem.unit_of(stage);  // which may have its members in another order
      stage.nodes = std::move(unit.nodes);
      stage.shares = std::move(unit.shares);
    }
  return out;
}

}  // namespace butterfly::cluster
