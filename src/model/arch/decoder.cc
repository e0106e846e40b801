#include "model/arch/decoder.h"

#include <fmt/format.h>

namespace butterfly::model {

Decoder::Decoder(const ModelConfig& model_config, WeightLoader& weights, LayerRange layers,
                 nn::NormKind norm_kind)
    : config(model_config), range(layers) {
  if (first()) {
    embedding = weights.table("token_embd.weight", config.vocab, config.dim);
    embedding_adapters = weights.embedding_adapters(config.vocab, config.dim);
  }
  blocks.reserve(range.end - range.begin);
  if (last()) {
    norm = {norm_kind, weights.vector("output_norm.weight", config.dim),
            weights.optional_vector("output_norm.bias", config.dim), config.norm_eps};
    head = weights.head(config.vocab, config.dim);
  }
}

StageValues Decoder::build(graph::Graph& g, size_t rows, size_t output_rows, size_t normed_rows) const {
  using graph::Elem;
  const auto n = static_cast<int64_t>(rows);
  nn::Builder b(g);
  StageValues values;
  values.positions = g.input("positions", {Elem::kI32, {n}});
  graph::ValueId x;
  if (first()) {
    values.tokens = g.input("tokens", {Elem::kI32, {n}});
    x = graph::embedding(g, values.tokens, embedding, "embedding");
    for (const nn::LowRank& adapter : embedding_adapters) {
      const graph::Parameter* up = &adapter.b;
      const graph::ValueId low = graph::embedding(g, values.tokens, adapter.a, adapter.a.name);
      const graph::ValueId delta = graph::matmul(g, b.rows_for(low, up->packed.act()), {&up, 1}, up->name)[0];
      x = graph::add_scaled(g, x, delta, adapter.scale, up->name + ".add");
    }
    if (embedding_scale != 1) x = graph::scale(g, x, embedding_scale, "embedding_scale");
    if (positions)
      x = graph::add(g, x, graph::embedding(g, values.positions, positions, "positions"), "positions.add");
  } else {
    values.hidden = x = g.input("hidden", {Elem::kF32, {n, static_cast<int64_t>(config.dim)}});
  }
  if (last()) values.selected = g.input("selected", {Elem::kI32, {static_cast<int64_t>(output_rows)}});
  std::vector<graph::ValueId> turns;
  for (const kernels::Rope& rope : ropes)
    turns.push_back(graph::rope_turns(g, values.positions, rope, "rope_turns"));
  for (size_t i = 0; i < blocks.size(); ++i)
    x = blocks[i].build(
        b, x, turns.empty() ? graph::ValueId{} : turns[rope_of_block.empty() ? 0 : rope_of_block[i]]);
  if (last() && normed_rows > 0) {
    values.normed_selected = g.input("normed_selected", {Elem::kI32, {static_cast<int64_t>(normed_rows)}});
    values.normed = norm.build(b, graph::select_rows(g, x, values.normed_selected, "normed_rows"));
    g.mark_output(values.normed);
  }
  if (last()) {
    x = head.build(b, norm.build(b, graph::select_rows(g, x, values.selected, "selected_rows")));
    if (logit_cap > 0) x = graph::soft_cap(g, x, logit_cap, "logit_cap");
  }
  g.mark_output(x);
  values.output = x;
  return values;
}

}  // namespace butterfly::model
