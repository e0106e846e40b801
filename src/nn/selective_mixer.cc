#include "nn/selective_mixer.h"

#include "base/checked.h"

namespace butterfly::nn {

SelectiveState selective_state(const graph::SelectiveStateShape& shape, size_t taps) {
  return {.conv = round_up((taps - 1) * shape.columns(), 16),
          .matrices = shape.heads * shape.head_dim * shape.state_dim,
          .conv_guess = shape.columns(),
          .matrix_guess = shape.heads * shape.guess_floats_per_head()};
}

// The outputs of the heads that are here, gated.
ValueId SelectiveMixer::build_gated(Builder& b, ValueId x) const {
  Graph& g = b.graph();
  const Linear* layers[] = {&z, &xbc, &dt};
  const auto products = build_linears(b, x, layers);
  const SelectiveState state = selective_state(shape, static_cast<size_t>(conv.value.size(0)));
  const ValueId rows = b.causal_conv(products[1], conv, conv_bias, {layer, 0, 0}, true, name + ".conv");
  graph::SelectiveStateShape placed = shape;
  placed.place = {layer, state.conv, state.conv_guess};
  placed.a = &a;
  placed.dt = &dt_bias;
  placed.skip = &skip;
  const ValueId y = b.selective_state(rows, products[2], placed, name + ".state");
  return graph::swiglu(g, products[0], y, name + ".gate");
}

ValueId SelectiveMixer::build(Builder& b, ValueId x) const {
  Graph& g = b.graph();
  const size_t rows = g.type(x).rows();
  const bool has_part = shape.heads > 0;
  if (!gathers) {
    if (!has_part) return out.build_shared(b, {}, rows);
    return out.build_behind(b, norm.build(b, build_gated(b, x)), columns_before);
  }
  const graph::MemberRange here = out.owners.columns();
  graph::ExchangePart part{.kind = graph::ExchangeKind::kColumns,
                           .mine = has_part ? build_gated(b, x) : ValueId{},
                           .rows = rows,
                           .cols = out.owners.cols,
                           .units = out.owners.cols,
                           .owners = {}};
  if (has_part && here.count() != g.type(part.mine).cols())
    part.mine = graph::columns(g, part.mine, columns_before, here.count(), name + ".columns");
  for (size_t member = 0; member < out.owners.of.size(); ++member)
    part.owners.push_back(out.owners.columns(member));
  const ValueId all = graph::exchange(g, {&part, 1}, out.owners.self, name + ".exchange")[0];
  if (!has_part) return out.build_shared(b, {}, rows);
  return out.build_behind(b, norm.build(b, all), here.begin);
}

}  // namespace butterfly::nn
