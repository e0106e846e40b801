// The fixed shape of every long float sum down the rows of a batch. (Along a row: lanes.h.)
#pragma once
#include <cstddef>

namespace butterfly::kernels {

// Rows are cut into blocks of this many: a chain from 0 per block, blocks added in order. Threads may take
// different blocks, and rounding errors grow with this plus the number of blocks, not with their product.
inline constexpr size_t kPositionBlock = 256;

}  // namespace butterfly::kernels
