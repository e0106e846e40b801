// Multi-head attention with grouped KV heads (over the cache of the run, or within sequences); rotary
// positions and normalised queries and keys where a model has them.
#pragma once
#include <string>

#include "nn/linear.h"
#include "nn/norm.h"

namespace butterfly::nn {

struct Attention {
  Linear q, k, v, out;
  Norm q_norm, k_norm;  // per head, before the turn; may be empty
  graph::AttentionShape shape;
  kernels::RopeLayout rope_layout = kernels::RopeLayout::kInterleaved;
  std::string name;

  // `turns`: the rope turns of the rows' positions; invalid: queries and keys are not turned.
  ValueId build(Builder& b, ValueId x, ValueId turns) const;
};

}  // namespace butterfly::nn
