#include "nn/delta_net.h"

#include "base/checked.h"

namespace butterfly::nn {

DeltaNetState delta_net_state(const graph::GatedDeltaShape& shape, size_t taps) {
  const size_t channels = 2 * shape.key_heads * shape.key_dim + shape.value_heads * shape.value_dim;
  return {.conv = round_up((taps - 1) * channels, 16),
          .matrices = shape.value_heads * shape.key_dim * shape.value_dim,
          .conv_guess = channels,
          .matrix_guess = shape.value_heads * shape.guess_floats_per_head()};
}

ValueId DeltaNet::build(Builder& b, ValueId x) const {
  Graph& g = b.graph();
  if (out.owners && shape.value_heads == 0) return out.build_shared(b, {}, g.type(x).rows());
  const Linear* layers[] = {&qkv, &z, &beta, &alpha};
  const auto products = build_linears(b, x, layers);
  const ValueId gates = products[1], betas = products[2], alphas = products[3];
  const DeltaNetState state = delta_net_state(shape, static_cast<size_t>(conv.value.size(0)));
  ValueId rows = b.causal_conv(products[0], conv, {}, {layer, 0, 0}, true, name + ".conv");
  rows = graph::l2_norm(g, rows, 2 * shape.key_heads, shape.key_dim, eps, name + ".l2_norm");
  graph::GatedDeltaShape placed = shape;
  placed.place = {layer, state.conv, state.conv_guess};
  placed.a = &a;
  placed.dt = &dt;
  const ValueId y = norm.build(b, b.gated_delta(rows, alphas, betas, placed, name + ".gated_delta"));
  return out.build_behind(b, graph::swiglu(g, gates, y, name + ".gate"), columns_before);
}

}  // namespace butterfly::nn
