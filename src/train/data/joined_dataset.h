// Several data sets as one, one behind the other.
#pragma once
#include <memory>
#include <vector>

#include "train/data/dataset.h"

namespace butterfly::train {

// They must have the same shape.
std::unique_ptr<Dataset> joined(std::vector<std::unique_ptr<Dataset>> parts);

}  // namespace butterfly::train
