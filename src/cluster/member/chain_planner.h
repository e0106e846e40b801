// The planner of partition/ as Coordinator's shell calls it: members in, a placement out.
#pragma once
#include "cluster/cost/piece.h"
#include "cluster/cost/problem.h"
#include "cluster/member/placement.h"
#include "tensor/dtype.h"

namespace butterfly::cluster {

// Plans this chain, whose weights are mostly of `type`, with the best strategy that can answer. The function
// holds copies and may be called from any thread. What a node says it has free is taken, less
// `reserve_bytes`. Links that nobody measured count as a plain 1 Gbit/s network.
PlanFunction chain_planner(PieceList pieces, DType type, PlanOptions options = {},
                           uint64_t reserve_bytes = 0);

// What the loss of each node of `current` would mean.
struct LossForecast {
  NodeId node;
  bool fits = false;        // on the rest
  double tokens_per_s = 0;  // then; 0 if it does not fit or is not known
  double slower = 0;        // the present rate is so many times that; 0: not known
  std::string words;        // "still fits, 1.4 times slower", "does not fit: …"
};
// Plans once per stage: some milliseconds each. `question` as Coordinator::question() gives it.
std::vector<LossForecast> forecast_losses(const PlanQuestion& question, const Placement& current,
                                          const PlanFunction& plan);

}  // namespace butterfly::cluster
