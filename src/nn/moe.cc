#include "nn/moe.h"

#include <map>

#include "graph/expert_linear.h"

namespace butterfly::nn {

namespace {

kernels::ActKind kind_of(const ExpertParameter& p) { return p.experts[0].act(); }

// What the adapter adds to rows at their places, not yet scaled. `shard_unit`: of the layer's inputs.
ValueId low_rank(Builder& b, ValueId x, const graph::MoeRoute& to, const ExpertLowRank& adapter, size_t first,
                 size_t shard_unit = 0) {
  const ValueId low = graph::expert_linear(b.graph(), b.adapter_dropout(x, adapter.a.name), to, adapter.a,
                                           first, adapter.a.name, shard_unit);
  return graph::expert_linear(b.graph(), low, to, adapter.b, first, adapter.b.name);
}

ValueId added(Builder& b, ValueId y, ValueId delta, const ExpertLowRank& adapter, const char* suffix) {
  return graph::add_scaled(b.graph(), y, delta, adapter.scale, adapter.b.name + suffix);
}

// The adapters that rows at their places name.
graph::RowAdapters at_places(Builder& b, const graph::MoeRoute& to, const std::string& name) {
  graph::RowAdapters adapters = b.row_adapters();
  if (adapters) adapters.of_rows = graph::gather_slots(b.graph(), adapters.of_rows, to, name + ".adapters");
  return adapters;
}

}  // namespace

// The inputs of the activation: gates, if there are any, and what they open.
std::vector<ValueId> Moe::build_up(Builder& b, ValueId x, const graph::MoeRoute& to,
                                   const graph::RowAdapters& adapters) const {
  Graph& g = b.graph();
  std::map<kernels::ActKind, ValueId> forms;
  // Rows are quantised before they are copied to their experts: once per row, and fewer bytes to copy.
  const auto places = [&](kernels::ActKind k) {
    const auto [it, fresh] = forms.try_emplace(k);
    if (fresh) it->second = graph::gather_slots(g, b.rows_for(x, k), to, name + ".slots");
    return it->second;
  };
  std::vector<const ExpertParameter*> layers;
  if (!gate.experts.empty()) layers.push_back(&gate);
  layers.push_back(&up);
  std::vector<ValueId> said;
  if (layers.size() == 1 || kind_of(gate) == kind_of(up)) {
    said = graph::expert_matmul(g, places(kind_of(*layers[0])), to, layers, layers[0]->name);
  } else {
    for (const ExpertParameter* one : layers)
      said.push_back(graph::expert_matmul(g, places(kind_of(*one)), to, {&one, 1}, one->name)[0]);
  }
  if (!b.adapters()) return said;
  const auto with = [&](ValueId& y, std::span<const ExpertLowRank> all) {
    for (const ExpertLowRank& adapter : all)
      y = added(b, y, low_rank(b, places(kernels::ActKind::kF32), to, adapter, up.first), adapter, ".add");
  };
  for (const ExpertLowRank& adapter : gate_up_adapters) {
    const ValueId both = low_rank(b, places(kernels::ActKind::kF32), to, adapter, up.first);
    const size_t half = g.type(both).cols() / 2;
    const auto part = [&](size_t i) {
      return graph::columns(g, both, i * half, half, adapter.b.name + (i == 0 ? ".gate" : ".up"));
    };
    said[0] = added(b, said[0], part(0), adapter, ".add_gate");
    said[1] = added(b, said[1], part(1), adapter, ".add_up");
  }
  if (said.size() > 1) with(said[0], gate_adapters);
  with(said.back(), up_adapters);
  if (!adapters) return said;
  // Of what B gives, the columns from `first` on.
  const auto with_row = [&](ValueId& y, size_t site, ValueId low, size_t first, const char* suffix) {
    y = graph::add_expert_adapters(g, y, low, to, adapters, site, first, name + suffix);
  };
  const auto low_of = [&](size_t site, const char* suffix) {
    return graph::expert_adapter_products(g, places(kernels::ActKind::kF32), to, adapters, site,
                                          name + suffix);
  };
  if (gate_up_site != kNoSite) {
    const ValueId low = low_of(gate_up_site, ".gate_up_adapters_a");
    with_row(said[0], gate_up_site, low, 0, ".gate_adapters");
    with_row(said[1], gate_up_site, low, g.type(said[0]).cols(), ".up_adapters");
  }
  if (said.size() > 1 && gate_site != kNoSite)
    with_row(said[0], gate_site, low_of(gate_site, ".gate_adapters_a"), 0, ".gate_adapters");
  if (up_site != kNoSite)
    with_row(said.back(), up_site, low_of(up_site, ".up_adapters_a"), 0, ".up_adapters");
  return said;
}

ValueId Moe::build_experts(Builder& b, ValueId x, const graph::MoeRoute& to) const {
  if (down.experts.empty()) return {};
  Graph& g = b.graph();
  const graph::RowAdapters adapters = at_places(b, to, name);
  const std::vector<ValueId> said = build_up(b, x, to, adapters);
  const ValueId hidden = said.size() == 1 ? build_plain(b, activation, said[0], name)
                                          : build_gated(b, activation, said[0], said[1], name);
  const ExpertParameter* last = &down;
  // Row-parallel, as every down: an expert's columns may one day be on several nodes.
  const size_t unit = kernels::shard_unit(down.experts[0].dtype());
  ValueId y = graph::expert_matmul(g, b.rows_for(hidden, kind_of(down)), to, {&last, 1}, down.name, unit)[0];
  if (b.adapters())
    for (const ExpertLowRank& adapter : down_adapters)
      y = added(b, y, low_rank(b, hidden, to, adapter, down.first, unit), adapter, ".add");
  if (adapters && down_site != kNoSite) {
    const ValueId low =
        graph::expert_adapter_products(g, hidden, to, adapters, down_site, name + ".down_adapters_a", unit);
    y = graph::add_expert_adapters(g, y, low, to, adapters, down_site, 0, name + ".down_adapters");
  }
  return y;
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
