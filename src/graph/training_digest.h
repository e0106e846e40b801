// Training on seeded weights and data, as fingerprints of losses and gradients that must be equal on all
// machines: what kernels/digest/digest_table.h is for single kernels.
#pragma once
#include <span>

#include "kernels/digest/digest_table.h"

namespace butterfly::graph {

std::span<const kernels::DigestRow> training_digest_table();

}  // namespace butterfly::graph
