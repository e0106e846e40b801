#include "nn/moe.h"

namespace butterfly::nn {

ValueId Moe::build_experts(Builder& b, ValueId x, const graph::MoeRoute& to) const {
  if (down.experts.empty()) return {};
  Graph& g = b.graph();
  const auto kind = [](const ExpertParameter& p) { return p.experts[0].act(); };
  // Rows are quantised before they are copied to their experts: once per row, and fewer bytes to copy.
  const auto places = [&](kernels::ActKind k) {
    return graph::gather_slots(g, b.rows_for(x, k), to, name + ".slots");
  };
  std::vector<ValueId> gated;
  if (gate.experts.empty()) {
    const ExpertParameter* one = &up;
    gated = graph::expert_matmul(g, places(kind(up)), to, {&one, 1}, up.name);
  } else if (kind(gate) == kind(up)) {
    const ExpertParameter* both[] = {&gate, &up};
    gated = graph::expert_matmul(g, places(kind(gate)), to, both, gate.name);
  } else {
    for (const ExpertParameter* one : {&gate, &up})
      gated.push_back(graph::expert_matmul(g, places(kind(*one)), to, {&one, 1}, one->name)[0]);
  }
  const ValueId hidden = gated.size() == 1 ? build_plain(b, activation, gated[0], name)
                                           : build_gated(b, activation, gated[0], gated[1], name);
  const ExpertParameter* last = &down;
  // Row-parallel, as every down: an expert's columns may one day be on several nodes.
  const size_t unit = kernels::shard_unit(down.experts[0].dtype());
  return graph::expert_matmul(g, b.rows_for(hidden, kind(down)), to, {&last, 1}, down.name, unit)[0];
}

ValueId Moe::build(Builder& b, ValueId x, ValueId routed_by) const {
  Graph& g = b.graph();
  const graph::MoeRoute to =
      graph::moe_route(g, router.build(b, routed_by), route, selection_bias, expert_scale, name + ".route");
  const ValueId read = latent_down ? latent_down.build(b, x) : x;
  ValueId out = build_experts(b, read, to), common;
  if (!owners.empty()) {
    // One exchange for the experts' rows and the product of the one that sees every row.
    const size_t rows = g.type(x).rows(), cols = g.type(read).cols();
    std::vector<graph::ExchangePart> parts = {{.kind = graph::ExchangeKind::kExpertRows,
                                               .mine = out,
                                               .rows = rows * to.used,
                                               .cols = cols,
                                               .units = router.out(),
                                               .owners = owners,
                                               .begins = to.begins}};
    if (shared) shared->down.add_parts(b, shared->build_hidden(b, x), rows, parts);
    const auto whole = graph::exchange(g, parts, self, name + ".exchange");
    out = whole[0];
    if (shared) common = shared->down.finish(b, std::span(whole).subspan(1));
  }
  ValueId sum = graph::moe_combine(g, out, to, name + ".combine");
  if (latent_up) sum = latent_up.build(b, sum);
  if (!shared) return sum;
  if (owners.empty()) common = shared->build(b, x);
  if (shared_gate) common = graph::gate(g, common, shared_gate.build(b, x), name + ".shared_gate");
  return graph::add(g, sum, common, name + ".shared");
}

}  // namespace butterfly::nn
