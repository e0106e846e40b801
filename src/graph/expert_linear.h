// Plain matrices of experts, which may learn: adapters beside the packed ones. A node as those of ops.h.
#pragma once
#include <string>

#include "graph/ops.h"

namespace butterfly::graph {

// Rows at places, sorted by expert (MoeRoute), each times its expert's matrix: weight [experts that are here,
// out, in], floats, of which the first belongs to expert `first`. [places, out]; rows of experts that are not
// here become zeros. `shard_unit` as for matmul().
ValueId expert_linear(Graph& g, ValueId x, const MoeRoute& route, const Parameter& weight, size_t first,
                      std::string name, size_t shard_unit = 0);

}  // namespace butterfly::graph
