// What data a run learns from, in a word.
#pragma once
#include <string>

#include "train/data/dataset.h"

namespace butterfly::train {

// Hexadecimal digits that differ for data of other contents or another order: a hash of the items, of all of
// them up to 64 MiB, beyond that of as many, spread evenly. Reads them.
std::string fingerprint(const Dataset& data);

}  // namespace butterfly::train
