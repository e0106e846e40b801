// All nodes in their order, each with as much as it does in the same time, up to its memory: water-filling.
//
// The level is the least time in which nodes that take all they can, one after the other, cover the chain;
// taking all one can is right for a fixed order, because what is left for the others only shrinks.
#include <algorithm>

#include "base/units.h"
#include "cluster/partition/ordered_groups.h"
#include "cluster/partition/partitioner.h"

namespace butterfly::cluster {
namespace {

// The ways in which each group of nodes can share pieces; of a node alone there is one.
using Groups = std::vector<std::vector<Unit>>;

// The end of the longest stage from `begin` on. Both limits rise with the end, so it is found by halving.
size_t reach(const Problem& problem, const Unit& unit, size_t begin, double level_s) {
  size_t low = begin, high = problem.pieces();
  while (low < high) {
    const size_t middle = (low + high + 1) / 2;
    if (problem.fits(unit, begin, middle) && unit.seconds(begin, middle) <= level_s)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

// The stages at this level; covers all pieces or stops short.
Plan fill_to(const Problem& problem, const Groups& groups, double level_s) {
  Plan plan;
  size_t begin = 0;
  for (const std::vector<Unit>& ways : groups) {
    if (begin == problem.pieces()) break;
    const Unit* best = nullptr;
    size_t end = begin;
    for (const Unit& unit : ways)
      if (const size_t reached = reach(problem, unit, begin, level_s); reached > end)
        end = reached, best = &unit;
    if (best != nullptr) plan.stages.push_back({best->nodes, begin, end, best->shares});
    begin = end;
  }
  return plan;
}

bool covers(const Problem& problem, const Plan& plan) {
  return !plan.stages.empty() && plan.stages.back().end == problem.pieces();
}

}  // namespace

Result<Partition> partition_balanced(const Problem& problem) {
  Groups groups;
  double low = 0, high = 0;
  for (const std::vector<size_t>& nodes : ordered_groups(problem)) {
    groups.push_back(problem.ways_of(nodes));
    for (const Unit& unit : groups.back()) high = std::max(high, unit.time_sum.back());
  }
  Plan best = fill_to(problem, groups, high);
  if (!covers(problem, best))
    return {Errc::kOutOfMemory,
            fmt::format("the nodes in their order have room for {} of {} pieces",
                        best.stages.empty() ? 0 : best.stages.back().end, problem.pieces())};
  // Halving until the level is exact to the last digits; 60 steps are enough for any double.
  for (int step = 0; step < 60 && high - low > 1e-12 * high; ++step) {
    const double middle = (low + high) / 2;
    Plan plan = fill_to(problem, groups, middle);
    if (covers(problem, plan)) {
      best = std::move(plan);
      high = middle;
    } else {
      low = middle;
    }
  }
  Partition out{.plan = std::move(best), .lower_bound_s = {}, .reasons = {}};
  for (const Stage& stage : out.plan.stages) {
    const size_t node = stage.nodes[0];
    if (stage.nodes.size() == 1 && stage.end < problem.pieces() &&
        !problem.fits(node, stage.begin, stage.end + 1))
      out.reasons.push_back(fmt::format("{} is full: {} of {}", problem.cluster().nodes[node].name,
                                        format_bytes(problem.memory_bytes(stage.begin, stage.end)),
                                        format_bytes(problem.units()[node].memory_bytes)));
  }
  return out;
}

}  // namespace butterfly::cluster
