// Equal counts over all nodes in their order; the first ones get one more where it does not come out even.
#include <algorithm>

#include "cluster/partition/partitioner.h"

namespace butterfly::cluster {

Result<Partition> partition_uniform(const Problem& problem) {
  const size_t pieces = problem.pieces(), nodes = std::min(problem.nodes(), pieces);
  Partition out;
  size_t begin = 0;
  for (size_t node = 0; node < nodes; ++node) {
    const size_t end = begin + pieces / nodes + (node < pieces % nodes);
    out.plan.stages.push_back({{node}, begin, end, {1.0}});
    begin = end;
  }
  if (problem.nodes() > pieces)
    out.reasons.push_back(fmt::format("{} nodes for {} pieces: the last {} have none", problem.nodes(),
                                      pieces, problem.nodes() - pieces));
  return out;
}

}  // namespace butterfly::cluster
