// Finishes a row-parallel product whose columns were multiplied in several places: the upper part of the tree
// over its logical shards (tiles/shards.h).
#pragma once
#include <cstddef>
#include <span>

#include "kernels/tiles/shards.h"

namespace butterfly::kernels {

// What matmul_shards() made of one subtree: rows of outputs, `stride` floats apart. Borrowed.
struct SubtreeSums {
  Subtree subtree;
  const float* rows;
  size_t stride;
};

// Outputs [begin, end) of m rows: y[i * y_stride + r]. `parts` are the subtrees of all owners in the order of
// their shards, and together all shards of the product (BF_CHECKed). Whose they are and how many there are
// does not show in the bits. y may be the rows of one of them.
void sum_subtrees(std::span<const SubtreeSums> parts, size_t m, float* y, size_t y_stride, size_t begin,
                  size_t end);

namespace ref {
void sum_subtrees(std::span<const SubtreeSums> parts, size_t m, float* y, size_t y_stride, size_t begin,
                  size_t end);
}

}  // namespace butterfly::kernels
