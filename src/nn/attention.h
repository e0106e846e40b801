// Multi-head attention with grouped KV heads and rotary positions, over the cache of the run.
#pragma once
#include <string>

#include "nn/linear.h"

namespace butterfly::nn {

struct Attention {
  Linear q, k, v, out;
  graph::AttentionShape shape;
  kernels::RopeLayout rope_layout = kernels::RopeLayout::kInterleaved;
  std::string name;

  // `turns`: the rope turns of the rows' positions.
  ValueId build(Builder& b, ValueId x, ValueId turns) const;
};

}  // namespace butterfly::nn
