// A plan that somebody wrote down (`serve --plan FILE`), for the nodes of a running cluster.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/member/placement.h"
#include "cluster/partition/plan_file.h"

namespace butterfly::runtime {

// Throws Error kInvalidArgument for a plan that no node that may still come makes right: a count of pieces
// that is not the model's, more members than a layer has parts, a node with two stages, a last stage whose
// first node is not the coordinator's.
void check_written_plan(const cluster::WrittenPlan& plan, size_t pieces, const std::string& coordinator);

// The stages with the numbers that these nodes have. kNotFound names those that are not here.
Result<cluster::Plan> find_nodes(const cluster::WrittenPlan& plan,
                                 const std::vector<cluster::PlanNode>& nodes);

}  // namespace butterfly::runtime
