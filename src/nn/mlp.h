// The feed-forward part of a block: down(f(gate(x)) * up(x)), or down(f(up(x))) without a gate.
#pragma once
#include "nn/linear.h"

namespace butterfly::nn {

// gelu in its tanh form; kernels::swiglu_clamped(); relu(x)^2, which has no gate
enum class Activation { kSilu, kGelu, kClampedSilu, kSquaredRelu };

struct Mlp {
  Activation activation = Activation::kSilu;
  Linear gate;  // may be empty, for kGelu; is, for kSquaredRelu
  Linear up, down;
  std::string name;

  ValueId build(Builder& b, ValueId x) const;
  // What `down` reads; where a group shares the layer, its columns that are here. Not valid if none are.
  ValueId build_hidden(Builder& b, ValueId x) const;
};

// f(up).
ValueId build_plain(Builder& b, Activation activation, ValueId up, const std::string& name);
// f(gate) * up.
ValueId build_gated(Builder& b, Activation activation, ValueId gate, ValueId up, const std::string& name);

}  // namespace butterfly::nn
