// A mixture of experts: a router sends each row to a few of many feed-forward parts and weighs what they say.
// graph/ops/moe_route.cc says which and in which order.
#pragma once
#include "nn/mlp.h"

namespace butterfly::nn {

using graph::ExpertParameter;

struct Moe {
  Linear router;                   // [experts, dim]
  ExpertParameter gate, up, down;  // per expert [ff, dim], [ff, dim], [dim, ff]
  size_t used = 0;                 // experts per row
  float scale = 1;                 // of the weights, after they were divided by their sum
  Activation activation = Activation::kSilu;
  std::string name;

  ValueId build(Builder& b, ValueId x) const;
};

}  // namespace butterfly::nn
