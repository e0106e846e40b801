// What the loss of each node would mean: still fits? slower by how much?
#pragma once
#include <string>
#include <vector>

#include "cluster/member/placement.h"

namespace butterfly::cluster {

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
