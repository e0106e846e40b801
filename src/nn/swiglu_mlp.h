// The feed-forward part of Llama-type blocks: down(silu(gate(x)) * up(x)).
#pragma once
#include "nn/linear.h"

namespace butterfly::nn {

struct SwigluMlp {
  Linear gate, up, down;
  std::string name;

  ValueId build(Builder& b, ValueId x) const {
    const Linear* layers[] = {&gate, &up};
    const auto both = build_linears(b, x, layers);
    return down.build(b, graph::swiglu(b.graph(), both[0], both[1], name + ".swiglu"));
  }
};

}  // namespace butterfly::nn
