#include "nn/transformer_block.h"

namespace butterfly::nn {

ValueId TransformerBlock::build(Builder& b, ValueId x, ValueId rotations) const {
  Graph& g = b.graph();
  ValueId delta = attention.build(b, attention_norm.build(b, x), rotations);
  if (attention_post_norm) delta = attention_post_norm.build(b, delta);
  delta = b.dropout(delta, attention.name);
  x = graph::add(g, delta, x, attention.name + ".residual");
  delta = std::visit([&](const auto& part) { return part.build(b, mlp_norm.build(b, x)); }, mlp);
  if (mlp_post_norm) delta = mlp_post_norm.build(b, delta);
  const std::string& name = std::visit([](const auto& part) -> const std::string& { return part.name; }, mlp);
  return graph::add(g, b.dropout(delta, name), x, name + ".residual");
}

}  // namespace butterfly::nn
