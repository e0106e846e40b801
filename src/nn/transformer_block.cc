#include "nn/transformer_block.h"

namespace butterfly::nn {

ValueId TransformerBlock::build(Builder& b, ValueId x, ValueId rotations) const {
  Graph& g = b.graph();
  const ValueId normed = attention_norm.build(b, x);
  const std::string& mixer = delta_net ? delta_net->name : attention.name;
  ValueId delta = delta_net ? delta_net->build(b, normed) : attention.build(b, normed, rotations);
  if (attention_post_norm) delta = attention_post_norm.build(b, delta);
  delta = b.dropout(delta, mixer);
  x = graph::add(g, delta, x, mixer + ".residual");
  delta = std::visit([&](const auto& part) { return part.build(b, mlp_norm.build(b, x)); }, mlp);
  if (mlp_post_norm) delta = mlp_post_norm.build(b, delta);
  const std::string& name = std::visit([](const auto& part) -> const std::string& { return part.name; }, mlp);
  return graph::add(g, b.dropout(delta, name), x, name + ".residual");
}

}  // namespace butterfly::nn
