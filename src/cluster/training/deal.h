// Who does how much of a training step: micro-batches by speed, parameters by bandwidth.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/pair_tree.h"

namespace butterfly::cluster {

// Ranges of leaves for members of these speeds (leaves per second, above 0), side by side, in their order;
// one that would be last to finish gets none. The slowest range takes as short as it can, to within a
// twentieth: for that much, ranges begin where fewer subtrees have to be sent. The sum does not depend on it.
std::vector<LeafRange> deal_leaves(size_t leaves, std::span<const double> speeds);

// Cuts blocks of these bytes into neighbouring parts for owners of these bandwidths (above 0): part i ends at
// [i]. No more owners than parts of `bytes_min`; those without one have an empty part. The first of all
// always has one, if there is any block.
std::vector<size_t> cut_blocks(std::span<const uint64_t> block_bytes, std::span<const double> bandwidths,
                               uint64_t bytes_min);

}  // namespace butterfly::cluster
