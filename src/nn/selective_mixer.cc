#include "nn/selective_mixer.h"

#include "base/checked.h"

namespace butterfly::nn {

SelectiveState selective_state(const graph::SelectiveStateShape& shape, size_t taps) {
  return {.conv = round_up((taps - 1) * shape.columns(), 16),
          .matrices = shape.heads * shape.head_dim * shape.state_dim,
          .conv_guess = shape.columns(),
          .matrix_guess = shape.heads * shape.guess_floats_per_head()};
}

ValueId SelectiveMixer::build(Builder& b, ValueId x) const {
  Graph& g = b.graph();
  const Linear* layers[] = {&z, &xbc, &dt};
  const auto products = build_linears(b, x, layers);
  const SelectiveState state = selective_state(shape, static_cast<size_t>(conv.value.size(0)));
  const ValueId rows =
      graph::causal_conv(g, products[1], conv, conv_bias, {layer, 0, 0}, true, name + ".conv");
  graph::SelectiveStateShape placed = shape;
  placed.place = {layer, state.conv, state.conv_guess};
  placed.a = &a;
  placed.dt = &dt_bias;
  placed.skip = &skip;
  const ValueId y = graph::selective_state(g, rows, products[2], placed, name + ".state");
  return out.build(b, norm.build(b, graph::swiglu(g, products[0], y, name + ".gate")));
}

}  // namespace butterfly::nn
