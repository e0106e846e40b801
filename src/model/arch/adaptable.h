// Which matrices of a model adapters can be added to.
#pragma once
#include <set>
#include <string>

#include "model/formats/model_file.h"

namespace butterfly::model {

// The tensors whose layers take adapters, as the architecture loads them; the output layer as kHeadTensor.
// Reads shapes and what is small, but no matrix. Throws Error as loading the model does.
std::set<std::string> adaptable_tensors(const ModelFile& file);

}  // namespace butterfly::model
