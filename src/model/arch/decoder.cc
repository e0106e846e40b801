#include "model/arch/decoder.h"

#include <fmt/format.h>

#include <cmath>
#include <tuple>

#include "base/check.h"
#include "base/error.h"
#include "graph/head_loss.h"

namespace butterfly::model {

Decoder::Decoder(const ModelConfig& model_config, WeightLoader& weights, LayerRange layers,
                 nn::NormKind norm_kind, const char* norm_name)
    : config(model_config), range(layers) {
  weights.refuse_scales();
  if (first()) {
    embedding = weights.table("token_embd.weight", config.vocab, config.dim);
    embedding_adapters = weights.embedding_adapters(config.vocab, config.dim);
    embedding_site = weights.embedding_site(config.vocab, config.dim);
  }
  if (const size_t cols = config.layer_input_cols; cols > 0 && first()) {
    input_table = weights.mapped_table("per_layer_token_embd.weight", config.vocab, cols * config.layers);
    input_product = weights.linear("per_layer_model_proj", cols * config.layers, config.dim);
    input_norm = {
        nn::NormKind::kRms, weights.vector("per_layer_proj_norm.weight", cols), {}, config.norm_eps};
  }
  blocks.reserve(range.end - range.begin);
  if (last()) {
    norm = {norm_kind, weights.vector(std::string(norm_name) + ".weight", config.dim),
            weights.optional_vector(std::string(norm_name) + ".bias", config.dim), config.norm_eps};
    self = weights.group().self;
    if (weights.group()) head_owners = rows_of(weights.group(), &LayerShare::vocabulary, config.vocab);
    head = weights.head(config.vocab, config.dim,
                        head_owners.empty() ? MemberRange{0, config.vocab} : head_owners[self]);
  }
}

void Decoder::add_rope(const kernels::RopeParams& params, const ModelFile& file) {
  try {
    ropes.emplace_back(params);
  } catch (const Error& error) {
    fail(Errc::kCorrupt, "{}: {}", file.path().string(), error.what());
  }
}

void Decoder::add_window_rope(const kernels::RopeParams& params, const ModelFile& file) {
  add_rope(params, file);
  for (size_t layer = range.begin; layer < range.end; ++layer)
    rope_of_block.push_back(config.states[layer].window > 0 ? ropes.size() - 1 : 0);
}

graph::ValueId Decoder::build_embedding(nn::Builder& b, graph::ValueId tokens, graph::ValueId row_positions,
                                        graph::ValueId* embedded) const {
  graph::Graph& g = b.graph();
  graph::ValueId x = graph::embedding(g, tokens, embedding, "embedding");
  if (embedded != nullptr) *embedded = x;
  for (const nn::LowRank& adapter : embedding_adapters) {
    if (!b.adapters()) break;
    const graph::ValueId low = graph::embedding(g, tokens, adapter.a, adapter.a.name);
    x = graph::add_scaled(g, x, nn::build_product(b, low, adapter.b), adapter.scale, adapter.b.name + ".add");
  }
  if (b.row_adapters() && embedding_site != nn::kNoSite) {
    const graph::ValueId low =
        graph::adapter_rows(g, tokens, b.row_adapters(), embedding_site, "embedding.adapters_a");
    x = graph::add_adapters(g, x, low, b.row_adapters(), embedding_site, "embedding.adapters");
  }
  if (embedding_scale != 1) x = graph::scale(g, x, embedding_scale, "embedding_scale");
  if (positions)
    x = graph::add(g, x, graph::embedding(g, row_positions, positions, "positions"), "positions.add");
  return b.dropout(x, "embedding");
}

graph::ValueId Decoder::build_layer_inputs(nn::Builder& b, graph::ValueId tokens, graph::ValueId x) const {
  graph::Graph& g = b.graph();
  const auto root = [](size_t count) { return std::sqrt(static_cast<float>(count)); };
  graph::ValueId of_tokens = graph::embedding(g, tokens, input_table, "layer_inputs");
  of_tokens = graph::scale(g, of_tokens, root(config.layer_input_cols), "layer_inputs.scale");
  graph::ValueId of_rows =
      graph::scale(g, input_product.build(b, x), 1 / root(config.dim), "layer_inputs.product");
  of_rows = input_norm.build(b, of_rows);
  return graph::scale(g, graph::add(g, of_rows, of_tokens, "layer_inputs.add"), 1 / root(2),
                      "layer_inputs.half");
}

Decoder::Rows Decoder::build_rows(nn::Builder& b, size_t rows, bool embeds, StageValues& values) const {
  using graph::Elem;
  graph::Graph& g = b.graph();
  const auto n = static_cast<int64_t>(rows);
  const size_t cols = config.layer_input_cols;
  Rows out;
  if (embeds) {
    values.tokens = g.input("tokens", {Elem::kI32, {n}});
    out.x = build_embedding(b, values.tokens, values.positions);
    if (cols > 0) out.inputs = build_layer_inputs(b, values.tokens, out.x);
    return out;
  }
  out.x = values.hidden = g.input("hidden", {Elem::kF32, {n, static_cast<int64_t>(config.row_cols())}});
  if (cols > 0)
    std::tie(out.x, out.inputs) =
        graph::split_columns(g, out.x, config.dim, cols * config.layers, "layer_inputs.split");
  return out;
}

graph::ValueId Decoder::joined(nn::Builder& b, const Rows& rows) const {
  if (!rows.inputs.valid()) return rows.x;
  return graph::join_columns(b.graph(), rows.x, rows.inputs, config.dim, config.row_cols() - config.dim,
                             "layer_inputs.join");
}

graph::ValueId Decoder::build_blocks(nn::Builder& b, const Rows& rows, graph::ValueId row_positions,
                                     size_t begin, size_t end) const {
  graph::ValueId x = rows.x;
  if (begin == end) return x;
  std::vector<graph::ValueId> rotations;
  for (const kernels::Rope& rope : ropes)
    rotations.push_back(graph::rope_rotations(b.graph(), row_positions, rope, "rope_rotations"));
  for (size_t i = begin; i < end; ++i) {
    const size_t rope = rope_of_block.empty() ? 0 : rope_of_block[i];
    const auto of = [&](size_t index) {
      return index < rotations.size() ? rotations[index] : graph::ValueId{};
    };
    b.at_block(range.begin + i);
    graph::ValueId input;
    if (const size_t cols = config.layer_input_cols; blocks[i].layer_input)
      input =
          graph::columns(b.graph(), rows.inputs, (range.begin + i) * cols, cols, blocks[i].layer_input->name);
    x = blocks[i].build(b, x, {.queries = of(query_rope == kNoRope ? rope : query_rope), .keys = of(rope)},
                        input);
  }
  return x;
}

TrainingValues Decoder::build_training(graph::Graph& g, const TrainingShape& shape) const {
  using graph::Elem;
  if (config.layer_input_cols > 0 && !(first() && last()))
    fail(Errc::kUnsupported, "training: layers with inputs of their own need all layers on one node");
  check_sources(range, config.states);
  if (head.adapters.size() > 1)
    fail(Errc::kUnsupported, "training: {} adapters of the output layer, expected at most one",
         head.adapters.size());
  const auto n = static_cast<int64_t>(shape.sequences * shape.length);
  TrainingValues values;
  values.positions = g.input("positions", {Elem::kI32, {n}});
  if (last()) {
    values.targets = g.input("targets", {Elem::kI32, {n}});
    values.factor = g.input("factor", {Elem::kF32, {1}});
  }
  if (shape.dropout > 0 || shape.adapter_dropout > 0)
    values.dropout_key = g.input("dropout_key", {Elem::kI32, {2}});
  nn::Builder b(g, {.length = shape.length,
                    .dropout = shape.dropout,
                    .adapter_dropout = shape.adapter_dropout,
                    .key = values.dropout_key,
                    .positions = values.positions});
  if (first()) {
    values.tokens = g.input("tokens", {Elem::kI32, {n}});
  } else {
    values.hidden = g.input("hidden", {Elem::kF32, {n, static_cast<int64_t>(config.dim)}});
  }
  const auto build_hidden = [&] {
    Rows rows{values.hidden, {}};
    if (first()) rows.x = build_embedding(b, values.tokens, values.positions, &values.embedded);
    if (config.layer_input_cols > 0) rows.inputs = build_layer_inputs(b, values.tokens, rows.x);
    return build_blocks(b, rows, values.positions, 0, blocks.size());
  };
  if (!last()) {
    values.output = build_hidden();
    g.mark_output(values.output);
    return values;
  }
  struct HeadRows {
    graph::ValueId x;    // as the head reads them
    graph::ValueId low;  // A x of its adapter; invalid: none
  };
  const auto build_head_rows = [&] {
    graph::ValueId x = norm.build(b, build_hidden());
    if (logit_scale != 1) x = graph::scale(g, x, logit_scale, "logit_scale");
    HeadRows rows{head.weight.packed ? b.rows_for(x, head.weight.packed.act()) : x, {}};
    if (!head.adapters.empty() && b.adapters()) {
      const graph::Parameter& a = head.adapters[0].a;
      rows.low = nn::build_product(b, b.adapter_dropout(x, a.name), a);
    }
    return rows;
  };
  const auto build_loss = [&](const HeadRows& rows, bool gradients, graph::ValueId slopes) {
    graph::HeadLoss options{.with_gradients = gradients,
                            .cap = logit_cap,
                            .slopes = slopes,
                            .product_scale = head.scale,
                            .bias = head.bias ? &head.bias : nullptr};
    if (rows.low.valid()) {
      options.low = rows.low;
      options.b = &head.adapters[0].b;
      options.scale = head.adapters[0].scale;
    }
    return graph::head_loss(g, rows.x, head.weight, values.targets, values.factor, options, head.weight.name);
  };
  if (shape.preference_beta > 0) {
    if (!first()) fail(Errc::kUnsupported, "training: preferences need all layers on one node");
    b.use_adapters(false);
    const graph::ValueId before = build_loss(build_head_rows(), false, {}).rows;
    b.use_adapters(true);
    const HeadRows rows = build_head_rows();
    const graph::Preference preferred =
        graph::preference(g, build_loss(rows, false, {}).rows, before, values.factor, shape.length,
                          shape.preference_beta, "preference");
    values.loss = build_loss(rows, shape.gradients, preferred.slopes);
    values.loss.correct = preferred.correct;
    values.shown = preferred.loss;
    g.mark_output(values.shown);
  } else {
    values.loss = build_loss(build_head_rows(), shape.gradients, {});
  }
  g.mark_output(values.loss.loss);
  g.mark_output(values.loss.correct);
  g.mark_output(values.loss.rows);
  return values;
}

graph::ValueId Decoder::build_head(nn::Builder& b, graph::ValueId x, graph::ValueId candidates) const {
  graph::Graph& g = b.graph();
  graph::ValueId logits;
  if (head.weight) {
    // What the head reads is scaled, and not what it gives: so a loss over parts of the logits can be, too.
    if (logit_scale != 1) x = graph::scale(g, x, logit_scale, "logit_scale");
    logits = head.build(b, x);
    if (logit_cap > 0) logits = graph::soft_cap(g, logits, logit_cap, "logit_cap");
  }
  if (head_owners.empty()) return logits;
  return graph::gather_logits(g, logits, candidates, config.vocab, head_owners, self, "logits.exchange");
}

namespace {

// The input by which rows name adapters.
graph::ValueId name_adapters(nn::Builder& b, size_t rows, size_t rank) {
  if (rank == 0) return {};
  const graph::ValueId of_rows =
      b.graph().input("adapters", {graph::Elem::kI32, {static_cast<int64_t>(rows)}});
  b.set_row_adapters({of_rows, rank});
  return of_rows;
}

}  // namespace

StageValues Decoder::build(graph::Graph& g, size_t rows, size_t output_rows, size_t normed_rows,
                           size_t adapter_rank) const {
  using graph::Elem;
  const auto n = static_cast<int64_t>(rows);
  nn::Builder b(g);
  StageValues values;
  values.positions = g.input("positions", {Elem::kI32, {n}});
  values.adapters = name_adapters(b, rows, adapter_rank);
  Rows rows_here = build_rows(b, rows, first(), values);
  if (last()) values.selected = g.input("selected", {Elem::kI32, {static_cast<int64_t>(output_rows)}});
  if (last() && !head_owners.empty())
    values.candidates = g.input("candidates", {Elem::kI32, {static_cast<int64_t>(output_rows)}});
  graph::ValueId x = rows_here.x = build_blocks(b, rows_here, values.positions, 0, blocks.size());
  if (last() && normed_rows > 0) {
    values.normed_selected = g.input("normed_selected", {Elem::kI32, {static_cast<int64_t>(normed_rows)}});
    values.normed = norm.build(b, graph::select_rows(g, x, values.normed_selected, "normed_rows"));
    g.mark_output(values.normed);
  }
  if (last()) {
    if (adapter_rank > 0)
      b.set_row_adapters(
          {graph::select_rows(g, values.adapters, values.selected, "selected_adapters"), adapter_rank});
    x = build_head(b, norm.build(b, graph::select_rows(g, x, values.selected, "selected_rows")),
                   values.candidates);
  } else {
    x = joined(b, rows_here);
  }
  g.mark_output(x);
  values.output = x;
  return values;
}

StageValues Decoder::build_part(graph::Graph& g, size_t rows, const LayerRange& part,
                                size_t adapter_rank) const {
  using graph::Elem;
  BF_CHECK(part.begin >= range.begin && part.end <= range.end && part.begin <= part.end &&
           (!part.has_embedding() || first()))
      << "blocks " << part.begin << " to " << part.end << " of " << range.begin << " to " << range.end;
  const auto n = static_cast<int64_t>(rows);
  nn::Builder b(g);
  StageValues values;
  values.positions = g.input("positions", {Elem::kI32, {n}});
  values.adapters = name_adapters(b, rows, adapter_rank);
  Rows rows_here = build_rows(b, rows, part.has_embedding(), values);
  rows_here.x =
      build_blocks(b, rows_here, values.positions, part.begin - range.begin, part.end - range.begin);
  const graph::ValueId x = values.output = joined(b, rows_here);
  g.mark_output(x);
  return values;
}

}  // namespace butterfly::model
