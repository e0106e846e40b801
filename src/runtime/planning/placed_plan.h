// From the planner's plan, in numbers of nodes, to the placement that a cluster carries out, and back.
#pragma once
#include <optional>
#include <string>

#include "cluster/cost/prediction.h"
#include "runtime/planning/node_table.h"

namespace butterfly::runtime {

// A plan that ends at the coordinator, with what it is predicted to do. Throws Error as predict() does.
cluster::Placement placement_of(const cluster::Plan& plan, const cluster::Problem& problem,
                                const NodeTable& table);

// A placement in the numbers of these nodes; nothing if one of its nodes is not there any more, or has other
// shares than planners give: the same whole parts of everything.
std::optional<cluster::Plan> plan_of(const cluster::Placement& placement, const cluster::Problem& problem,
                                     const NodeTable& table);

bool has_groups(const cluster::Plan& plan);

// Who shares what: "every layer is shared: a 4/8, b 4/8"; empty where nobody does.
std::string group_words(const cluster::Plan& plan, const cluster::Problem& problem);

}  // namespace butterfly::runtime
