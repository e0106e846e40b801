// Experts in one tensor, as some folders have them: gates and outputs by turns or in halves, and matrices
// as they are, the other way round, or as MXFP4 in two tensors, nibbles and scales.
#pragma once
#include "model/formats/hf_values.h"

namespace butterfly::model {

// For the rules kExperts... and kMxfp4...; `scales` is for the latter. Throws Error kCorrupt when a shape
// does not allow it.
NamedTensor hf_experts(std::string name, const HfSource& source, const HfSource* scales, HfValues values);

}  // namespace butterfly::model
