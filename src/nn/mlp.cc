#include "nn/mlp.h"

#include "base/check.h"

namespace butterfly::nn {

ValueId build_gated(Builder& b, Activation activation, ValueId gate, ValueId up, const std::string& name) {
  if (activation == Activation::kGelu) return graph::geglu(b.graph(), gate, up, name + ".geglu");
  const bool clamped = activation == Activation::kClampedSilu;
  return (clamped ? graph::swiglu_clamped : graph::swiglu)(b.graph(), gate, up, name + ".swiglu");
}

ValueId build_plain(Builder& b, Activation activation, ValueId up, const std::string& name) {
  if (activation == Activation::kGelu) return graph::gelu(b.graph(), up, name + ".gelu");
  BF_CHECK(activation == Activation::kSquaredRelu) << name << ": silu has no form without a gate";
  const ValueId kept = graph::relu(b.graph(), up, name + ".relu");
  return graph::mul(b.graph(), kept, kept, name + ".square");
}

ValueId Mlp::build_hidden(Builder& b, ValueId x) const {
  if (!up) return {};
  if (!gate) return build_plain(b, activation, up.build(b, x), name);
  const Linear* layers[] = {&gate, &up};
  const auto both = build_linears(b, x, layers);
  return build_gated(b, activation, both[0], both[1], name);
}

ValueId Mlp::build(Builder& b, ValueId x) const {
  const ValueId hidden = build_hidden(b, x);
  return down.owners ? down.build_shared(b, hidden, b.graph().type(x).rows()) : down.build(b, hidden);
}

}  // namespace butterfly::nn
