// Lifetimes of the values of well-known networks, from the formulas of their shapes: hard and realistic
// inputs for placement tests and benches. Only for tests.
#pragma once
#include <string>
#include <vector>

#include "graph/placement.h"

namespace butterfly::graph::testing {

struct NetworkLives {
  std::string name;
  std::vector<BufferLife> buffers;
};

// GPT-2 124M and ResNet-18/50, inference and training; weight gradients freed at once, or kept to the end for
// an exchange between machines.
std::vector<NetworkLives> network_lives();

// `count` buffers as a deep training graph has them: half short, half held from a forward step to its mirror
// image in the backward pass. A function of (count, seed).
std::vector<BufferLife> many_lives(size_t count, uint64_t seed);

}  // namespace butterfly::graph::testing
