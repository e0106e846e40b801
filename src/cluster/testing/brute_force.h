// The slow clear reference of the planner: every ordered subset of nodes, every set of cuts, summed by hand.
#pragma once
#include "cluster/cost/problem.h"

namespace butterfly::cluster::testing {

struct BruteForce {
  double objective_s = kNever;  // kNever: nothing fits, or nothing keeps the latency limit
  Plan plan;
  size_t plans = 0;  // looked at, that fit
};

// Single nodes only. Minutes beyond 6 nodes and 10 pieces.
BruteForce brute_force(const Problem& problem);

}  // namespace butterfly::cluster::testing
