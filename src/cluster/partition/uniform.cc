// Equal counts over all nodes in their order; the first ones get one more where it does not come out even.
#include <algorithm>

#include "cluster/partition/ordered_groups.h"
#include "cluster/partition/partitioner.h"

namespace butterfly::cluster {

Result<Partition> partition_uniform(const Problem& problem) {
  const auto groups = ordered_groups(problem);
  const size_t pieces = problem.pieces(), stages = std::min(groups.size(), pieces);
  Partition out;
  size_t begin = 0;
  for (size_t i = 0; i < stages; ++i) {
    const size_t end = begin + pieces / stages + (i < pieces % stages);
    const Unit unit = problem.unit_of({groups[i], begin, end, {}});
    out.plan.stages.push_back({unit.nodes, begin, end, unit.shares});
    begin = end;
  }
  if (groups.size() > pieces)
    out.reasons.push_back(fmt::format("{} nodes for {} pieces: the last {} have none", problem.nodes(),
                                      pieces, groups.size() - pieces));
  return out;
}

}  // namespace butterfly::cluster
