#include "nn/moe.h"

namespace butterfly::nn {

ValueId Moe::build(Builder& b, ValueId x) const {
  Graph& g = b.graph();
  const auto kind = [](const ExpertParameter& p) { return p.experts[0].act(); };
  const graph::MoeRoute route = graph::moe_route(g, router.build(b, x), used, scale, name + ".route");
  // Rows are quantised before they are copied to their experts: once per row, and fewer bytes to copy.
  const auto places = [&](kernels::ActKind k) {
    return graph::gather_slots(g, b.rows_for(x, k), route, name + ".slots");
  };
  std::vector<ValueId> gated;
  if (kind(gate) == kind(up)) {
    const ExpertParameter* both[] = {&gate, &up};
    gated = graph::expert_matmul(g, places(kind(gate)), route, both, gate.name);
  } else {
    for (const ExpertParameter* one : {&gate, &up})
      gated.push_back(graph::expert_matmul(g, places(kind(*one)), route, {&one, 1}, one->name)[0]);
  }
  const ValueId hidden = build_gated(b, activation, gated[0], gated[1], name);
  const ExpertParameter* last = &down;
  const ValueId out =
      graph::expert_matmul(g, b.rows_for(hidden, kind(down)), route, {&last, 1}, down.name)[0];
  return graph::moe_combine(g, out, route, name + ".combine");
}

}  // namespace butterfly::nn
