// A plan as the simulator plays it.
#pragma once
#include "cluster/cost/problem.h"
#include "cluster/sim/sim_spec.h"

namespace butterfly::cluster {

// Times per row from the work the pieces state for their batch and prompt; links from the cluster.
SimCluster sim_cluster(const Problem& problem, const Plan& plan);

}  // namespace butterfly::cluster
