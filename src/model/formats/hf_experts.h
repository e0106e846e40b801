// Experts as gpt-oss has them in its folders: all in one tensor, gates and outputs by turns, and matrices
// either as floats the other way round or as MXFP4 in two tensors, nibbles and scales.
#pragma once
#include "model/formats/hf_values.h"

namespace butterfly::model {

// For the rules kExperts... and kMxfp4...; `scales` is for the latter. Throws Error kCorrupt when a shape
// does not allow it.
NamedTensor hf_experts(std::string name, const HfSource& source, const HfSource* scales, HfValues values);

}  // namespace butterfly::model
