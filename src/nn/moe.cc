#include "nn/moe.h"

namespace butterfly::nn {

ValueId Moe::build(Builder& b, ValueId x) const {
  Graph& g = b.graph();
  const auto kind = [](const ExpertParameter& p) { return p.experts[0].act(); };
  const graph::MoeRoute to = graph::moe_route(g, router.build(b, x), route, selection_bias, name + ".route");
  // Rows are quantised before they are copied to their experts: once per row, and fewer bytes to copy.
  const auto places = [&](kernels::ActKind k) {
    return graph::gather_slots(g, b.rows_for(x, k), to, name + ".slots");
  };
  std::vector<ValueId> gated;
  if (kind(gate) == kind(up)) {
    const ExpertParameter* both[] = {&gate, &up};
    gated = graph::expert_matmul(g, places(kind(gate)), to, both, gate.name);
  } else {
    for (const ExpertParameter* one : {&gate, &up})
      gated.push_back(graph::expert_matmul(g, places(kind(*one)), to, {&one, 1}, one->name)[0]);
  }
  const ValueId hidden = build_gated(b, activation, gated[0], gated[1], name);
  const ExpertParameter* last = &down;
  // Row-parallel, as every down: an expert's columns may one day be on several nodes.
  const size_t unit = kernels::shard_unit(down.experts[0].dtype());
  const ValueId out =
      graph::expert_matmul(g, b.rows_for(hidden, kind(down)), to, {&last, 1}, down.name, unit)[0];
  const ValueId sum = graph::moe_combine(g, out, to, name + ".combine");
  if (!shared) return sum;
  ValueId common = shared->build(b, x);
  if (shared_gate) common = graph::gate(g, common, shared_gate.build(b, x), name + ".shared_gate");
  return graph::add(g, sum, common, name + ".shared");
}

}  // namespace butterfly::nn
