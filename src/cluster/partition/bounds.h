// Lower bounds that no plan can beat, for any number of nodes.
//
// The relaxation forgets which stage follows which. What stays: stages are contiguous, every piece is
// covered, each node runs at most one stage and pays for its cheapest way in; the first piece is a prefix,
// the last a suffix.
#pragma once
#include <span>
#include <vector>

#include "cluster/cost/problem.h"

namespace butterfly::cluster {

// Least latency of any plan over these single-node units with stages and links of at most cap_s. `with_s` (by
// position in `units`) is the bound of plans that use that unit: above a known plan's latency, the unit can
// be left out.
struct LatencyBound {
  double seconds = kNever;     // kNever: there is no plan at all
  std::vector<double> with_s;  // only if asked for
  std::vector<size_t> chosen;  // units of the relaxed optimum, first stage first, last stage last
};
LatencyBound bound_latency(const Problem& problem, std::span<const size_t> units, double cap_s,
                           bool with_each);

// Whether the relaxation can cover all pieces with stages and links of at most cap_s; if not, nothing can.
bool may_reach_cap(const Problem& problem, std::span<const size_t> units, double cap_s);

// Every value that a slowest stage or link can have, ascending, within [low, high].
std::vector<double> cap_candidates(const Problem& problem, std::span<const size_t> units, double low,
                                   double high);

// The same with groups: nobody shares better than by speed, without a word, and with no more than the allowed
// members. Holds for any plan, and is far below most.
double sharing_bound(const Problem& problem);

// Lower bound of what options().objective minimises, over all single-node units. kNever: no plan.
double lower_bound(const Problem& problem);

}  // namespace butterfly::cluster
