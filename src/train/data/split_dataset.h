// One data set as two: what is learned, and what is kept for validation.
#pragma once
#include <memory>
#include <utility>

#include "train/data/dataset.h"

namespace butterfly::train {

// The second has `kept` items, drawn by `seed`; the first the others. Throws Error kInvalidArgument when
// nothing would be left to learn.
std::pair<std::unique_ptr<Dataset>, std::unique_ptr<Dataset>> split(std::unique_ptr<Dataset> data,
                                                                    uint64_t kept, uint64_t seed);

// How many items val_set_size keeps: a part of them below 1, at least one; else as many as it says.
uint64_t kept_items(uint64_t items, double val_set_size);

}  // namespace butterfly::train
