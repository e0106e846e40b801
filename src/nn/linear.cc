#include "nn/linear.h"

#include <algorithm>

namespace butterfly::nn {
namespace {

ValueId scaled(Graph& g, const Linear& layer, ValueId y) {
  return layer.scale == 1 ? y : graph::scale(g, y, layer.scale, layer.weight.name + ".scale");
}

// y plus what an adapter adds, from its A x.
ValueId with_low_rank(Builder& b, ValueId y, ValueId low, const LowRank& adapter) {
  Graph& g = b.graph();
  ValueId delta = build_product(b, low, adapter.b);
  if (!adapter.columns.empty())
    delta = graph::columns(g, delta, adapter.columns, adapter.b.name + ".columns");
  return graph::add_scaled(g, y, delta, adapter.scale, adapter.b.name + ".add");
}

// A x of the adapters that rows name, of several layers over x that are summed alike; invalid for those that
// take none.
std::vector<ValueId> row_products(Builder& b, ValueId x, std::span<const Linear* const> layers,
                                  size_t shard_unit) {
  std::vector<ValueId> products(layers.size());
  std::vector<size_t> sites, takers;
  for (size_t i = 0; i < layers.size(); ++i)
    if (b.row_adapters() && layers[i]->site != kNoSite) {
      sites.push_back(layers[i]->site);
      takers.push_back(i);
    }
  if (sites.empty()) return products;
  const auto low = graph::adapter_products(b.graph(), x, b.row_adapters(), sites,
                                           layers[takers[0]]->weight.name + ".adapters_a", shard_unit);
  for (size_t i = 0; i < takers.size(); ++i) products[takers[i]] = low[i];
  return products;
}

// y, scaled, plus what adapters and bias add. `of_rows`: from row_products().
ValueId with_additions(Builder& b, const Linear& layer, ValueId x, ValueId y, ValueId of_rows) {
  Graph& g = b.graph();
  y = scaled(g, layer, y);
  for (const LowRank& adapter : layer.adapters) {
    if (!b.adapters()) break;
    const ValueId low = build_product(b, b.adapter_dropout(x, adapter.a.name), adapter.a, layer.shard_unit());
    y = with_low_rank(b, y, low, adapter);
  }
  if (of_rows.valid())
    y = graph::add_adapters(g, y, of_rows, b.row_adapters(), layer.site, layer.weight.name + ".adapters");
  return layer.bias ? graph::add_bias(g, y, layer.bias, layer.bias.name) : y;
}

}  // namespace

ValueId build_product(Builder& b, ValueId x, const Parameter& weight, size_t shard_unit) {
  if (!weight.packed) return graph::linear(b.graph(), x, weight, {}, weight.name, shard_unit);
  const Parameter* packed = &weight;
  const ValueId rows = b.rows_for(x, weight.packed.act());
  return graph::matmul(b.graph(), rows, {&packed, 1}, weight.name, shard_unit)[0];
}

size_t Linear::shard_unit() const {
  if (!row_parallel) return 0;
  return kernels::shard_unit(weight.packed ? weight.packed.dtype() : weight.value.dtype());
}

void Linear::add_parts(Builder& b, ValueId x, size_t rows, std::vector<graph::ExchangePart>& parts) const {
  const graph::MemberRange& here = owners.of[owners.self];
  const kernels::Shards shards = owners.shards();
  const auto add = [&](const Parameter& part, size_t cols, const std::string& name) {
    ValueId mine;
    if (!here.empty())
      mine = graph::matmul_subtrees(b.graph(), b.rows_for(x, part.packed.act()), part,
                                    kernels::ShardCuts::share(shards, here.begin, here.end), name);
    parts.push_back({.kind = graph::ExchangeKind::kShardSums,
                     .mine = mine,
                     .rows = rows,
                     .cols = cols,
                     .units = shards.count(),
                     .owners = owners.of});
  };
  add(weight, owners.out, weight.name);
  for (const LowRank& adapter : adapters) add(adapter.a, adapter.b.cols(), adapter.a.name);
}

ValueId Linear::finish(Builder& b, std::span<const ValueId> whole) const {
  Graph& g = b.graph();
  ValueId y = scaled(g, *this, whole[0]);
  for (size_t i = 0; i < adapters.size(); ++i) y = with_low_rank(b, y, whole[1 + i], adapters[i]);
  return bias ? graph::add_bias(g, y, bias, bias.name) : y;
}

ValueId Linear::build_shared(Builder& b, ValueId x, size_t rows) const {
  std::vector<graph::ExchangePart> parts;
  add_parts(b, x, rows, parts);
  return finish(b, graph::exchange(b.graph(), parts, owners.self, weight.name + ".exchange"));
}

ValueId Linear::build_behind(Builder& b, ValueId x, size_t before) const {
  if (!owners) return build(b, x);
  const size_t here = owners.columns().count();
  const graph::ValueType& type = b.graph().type(x);
  const size_t rows = type.rows();
  if (here != type.cols()) x = graph::columns(b.graph(), x, before, here, weight.name + ".columns");
  return build_shared(b, x, rows);
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
      outputs[i] =
          layer.adapters.empty() && layer.scale == 1
              ? graph::linear(b.graph(), x, layer.weight, layer.bias, layer.weight.name, layer.shard_unit())
              : with_additions(b, layer, x, build_product(b, x, layer.weight, layer.shard_unit()), {});
      continue;
    }
    // Layer i and all later ones of the same kind.
    const kernels::ActKind kind = layers[i]->weight.packed.act();
    const size_t unit = layers[i]->shard_unit();
    std::vector<const Parameter*> weights;
    std::vector<const Linear*> members;
    std::vector<size_t> places;
    for (size_t j = i; j < layers.size(); ++j)
      if (layers[j]->weight.packed && layers[j]->weight.packed.act() == kind &&
          layers[j]->shard_unit() == unit) {
        weights.push_back(&layers[j]->weight);
        members.push_back(layers[j]);
        places.push_back(j);
      }
    const auto products =
        graph::matmul(b.graph(), b.rows_for(x, kind), weights, layers[i]->weight.name, unit);
    const auto of_rows = row_products(b, x, members, unit);
    for (size_t m = 0; m < members.size(); ++m)
      outputs[places[m]] = with_additions(b, *members[m], x, products[m], of_rows[m]);
  }
  return outputs;
}

}  // namespace butterfly::nn
