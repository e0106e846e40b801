// All nodes in their order, for strategies that leave nobody out.
#pragma once
#include <vector>

#include "cluster/cost/problem.h"

namespace butterfly::cluster {

// One node after the other; or groups of PlanOptions::group_size_wanted of them, counted from the end, so
// that the first ones are fewer where it does not come out even.
std::vector<std::vector<size_t>> ordered_groups(const Problem& problem);

}  // namespace butterfly::cluster
