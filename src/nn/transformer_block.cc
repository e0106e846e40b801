#include "nn/transformer_block.h"

namespace butterfly::nn {
namespace {

ValueId normed(Builder& b, const Norm& norm, ValueId x) { return norm ? norm.build(b, x) : x; }

}  // namespace

ValueId TransformerBlock::build(Builder& b, ValueId x, const Rotations& rotations) const {
  const auto added = [&](ValueId to, ValueId delta, const std::string& part) {
    delta = b.dropout(delta, part);
    const std::string name = part + ".residual";
    return residual_scale == 1 ? graph::add(b.graph(), delta, to, name)
                               : graph::add_scaled(b.graph(), to, delta, residual_scale, name);
  };
  const ValueId seen = normed(b, attention_norm, x);
  ValueId delta = delta_net    ? delta_net->build(b, seen)
                  : short_conv ? short_conv->build(b, seen)
                               : attention.build(b, seen, rotations);
  const std::string& mixer = delta_net ? delta_net->name : short_conv ? short_conv->name : attention.name;
  x = added(x, normed(b, attention_post_norm, delta), mixer);
  delta = std::visit([&](const auto& part) { return part.build(b, normed(b, mlp_norm, x)); }, mlp);
  const std::string& name = std::visit([](const auto& part) -> const std::string& { return part.name; }, mlp);
  return added(x, normed(b, mlp_post_norm, delta), name);
}

}  // namespace butterfly::nn
