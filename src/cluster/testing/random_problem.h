// Seeded clusters and chains of pieces for tests: unequal nodes, wired and wireless links, tight and ample
// memory.
#pragma once
#include <cstdint>

#include "cluster/cost/problem.h"

namespace butterfly::cluster::testing {

struct RandomProblemShape {
  size_t nodes = 4;
  size_t pieces = 8;
  bool equal_blocks = true;  // as in a model; else every piece and every cut is different
  double memory_factor = 2;  // RAM of all nodes together / bytes of all pieces, about
  double step_bytes = 1e8;   // weights of a block: small makes links matter
};

PieceList random_pieces(const RandomProblemShape& shape, uint64_t seed);
ClusterSpec random_cluster(const RandomProblemShape& shape, uint64_t seed);
// A shape from a seed: up to `nodes_max` nodes and `pieces_max` pieces.
RandomProblemShape random_shape(uint64_t seed, size_t nodes_max, size_t pieces_max);

// A node that does 1 flop/s, 1 op/s and 1 byte/s at full efficiency, with ample memory: times are work.
NodeSpec unit_node(const char* name, double speed = 1);

}  // namespace butterfly::cluster::testing
