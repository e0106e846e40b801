#include "nn/linear.h"

#include <algorithm>

namespace butterfly::nn {
namespace {

// y plus what adapters and bias add.
ValueId with_additions(Builder& b, const Linear& layer, ValueId x, ValueId y) {
  Graph& g = b.graph();
  for (const LowRank& adapter : layer.adapters) {
    const ValueId delta = build_product(b, build_product(b, x, adapter.a), adapter.b);
    y = graph::add_scaled(g, y, delta, adapter.scale, adapter.b.name + ".add");
  }
  return layer.bias ? graph::add_bias(g, y, layer.bias, layer.bias.name) : y;
}

}  // namespace

ValueId build_product(Builder& b, ValueId x, const Parameter& weight) {
  if (!weight.packed) return graph::linear(b.graph(), x, weight, {}, weight.name);
  const Parameter* packed = &weight;
  return graph::matmul(b.graph(), b.rows_for(x, weight.packed.act()), {&packed, 1}, weight.name)[0];
}

ValueId Linear::build(Builder& b, ValueId x) const {
  const Linear* self = this;
  return build_linears(b, x, {&self, 1})[0];
}

std::vector<ValueId> build_linears(Builder& b, ValueId x, std::span<const Linear* const> layers) {
  std::vector<ValueId> outputs(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    if (outputs[i].valid()) continue;
    if (!layers[i]->weight.packed) {
      const Linear& layer = *layers[i];
      outputs[i] = layer.adapters.empty()
                       ? graph::linear(b.graph(), x, layer.weight, layer.bias, layer.weight.name)
                       : with_additions(b, layer, x, build_product(b, x, layer.weight));
      continue;
    }
    // Layer i and all later ones of the same kind.
    const kernels::ActKind kind = layers[i]->weight.packed.act();
    std::vector<const Parameter*> weights;
    std::vector<size_t> members;
    for (size_t j = i; j < layers.size(); ++j)
      if (layers[j]->weight.packed && layers[j]->weight.packed.act() == kind) {
        weights.push_back(&layers[j]->weight);
        members.push_back(j);
      }
    const auto products = graph::matmul(b.graph(), b.rows_for(x, kind), weights, layers[i]->weight.name);
    for (size_t m = 0; m < members.size(); ++m)
      outputs[members[m]] = with_additions(b, *layers[members[m]], x, products[m]);
  }
  return outputs;
}

}  // namespace butterfly::nn
