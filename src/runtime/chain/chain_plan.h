// A planner's stages as parts of a model: who loads what, in the order of the chain.
#pragma once
#include <vector>

#include "cluster/cost/plan.h"
#include "model/arch/layer_range.h"

namespace butterfly::runtime {

struct ChainPart {
  size_t node = 0;  // as the plan numbers nodes
  model::LayerRange range;
  friend bool operator==(const ChainPart&, const ChainPart&) = default;
};

// The last part is the coordinator's and has the head, alone if the plan puts the end elsewhere; the node
// that the plan gave it to keeps the rest. So a coordinator in the middle of the plan appears twice, and one
// part means that the model is not split. Plans for which the way back counts logits
// (PlanWorkload::return_logits) put the coordinator last by themselves where that is best.
//
// Throws Error kUnsupported for stages that several nodes share, kInvalidArgument for a plan that does not
// cover the pieces of a model with `layers` blocks.
std::vector<ChainPart> chain_parts(const cluster::Plan& plan, size_t layers, size_t coordinator);

}  // namespace butterfly::runtime
