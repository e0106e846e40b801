// A plan as a picture: the chain with its cuts, and for every node its pieces, time and memory.
#pragma once
#include <string>

#include "cluster/partition/partitioner.h"

namespace butterfly::cluster {

// SVG text. Nodes in the order of the stages, those left out below.
std::string plan_picture(const Problem& problem, const PlannedChain& planned);

}  // namespace butterfly::cluster
