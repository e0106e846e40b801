// A pre-norm transformer block: attention and feed-forward, each added to its input.
#pragma once
#include "nn/attention.h"
#include "nn/rms_norm.h"
#include "nn/swiglu_mlp.h"

namespace butterfly::nn {

struct TransformerBlock {
  RmsNorm attention_norm;
  Attention attention;
  RmsNorm mlp_norm;
  SwigluMlp mlp;

  ValueId build(Builder& b, ValueId x, ValueId turns) const {
    Graph& g = b.graph();
    x = graph::add(g, attention.build(b, attention_norm.build(b, x), turns), x, attention.name + ".residual");
    return graph::add(g, mlp.build(b, mlp_norm.build(b, x)), x, mlp.name + ".residual");
  }
};

}  // namespace butterfly::nn
