// A GPT as a graph of plain operations, of any size, for tests of plans: forward pass, loss and gradients.
#pragma once
#include <deque>
#include <vector>

#include "graph/gradients.h"
#include "graph/ops.h"

namespace butterfly::graph::testing {

struct GptSizes {
  size_t batch, length, dim, heads, layers, vocabulary;
};

// Owns the weights: zeros, or small random numbers.
class SmallGpt {
 public:
  SmallGpt(const GptSizes& sizes, bool random);

  struct Built {
    Graph graph;
    size_t forward_nodes = 0;
    ValueId tokens, positions, targets, factor;
    ValueId loss;
    std::vector<ValueId> gradients;  // outputs, or bound: slot i is gradient i
  };
  // `bound`: gradients live outside the arena.
  Built build(bool bound) const;
  const GptSizes& sizes() const { return sizes_; }

 private:
  struct Block {
    Parameter norm1, norm1_bias, q, k, v, projection, norm2, norm2_bias, up, up_bias, down, down_bias;
  };
  Parameter parameter(const char* name, Shape shape, float mean = 0);

  GptSizes sizes_;
  bool random_;
  uint64_t stream_ = 0;
  Parameter tokens_, positions_, norm_, norm_bias_;
  std::deque<Block> blocks_;
};

}  // namespace butterfly::graph::testing
