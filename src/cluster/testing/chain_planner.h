// The planner of partition/ as a PlanFunction, without a model: for tests and simulations of membership.
#pragma once
#include "cluster/cost/piece.h"
#include "cluster/cost/problem.h"
#include "cluster/member/placement.h"
#include "tensor/dtype.h"

namespace butterfly::cluster::testing {

// Plans this chain, whose weights are mostly of `type`, with the best strategy that can answer. The function
// holds copies and may be called from any thread. What a node says it has free is taken, less
// `reserve_bytes`. Links that nobody measured count as a plain 1 Gbit/s network.
PlanFunction chain_planner(PieceList pieces, DType type, PlanOptions options = {},
                           uint64_t reserve_bytes = 0);

}  // namespace butterfly::cluster::testing
