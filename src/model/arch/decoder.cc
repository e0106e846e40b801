#include "model/arch/decoder.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"

namespace butterfly::model {

Decoder::Decoder(const ModelConfig& model_config, WeightLoader& weights, LayerRange layers,
                 nn::NormKind norm_kind, const char* norm_name)
    : config(model_config), range(layers) {
  weights.refuse_scales();
  if (first()) {
    embedding = weights.table("token_embd.weight", config.vocab, config.dim);
    embedding_adapters = weights.embedding_adapters(config.vocab, config.dim);
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
    rope_of_block.push_back(config.states[layer].kind == StateKind::kWindow ? ropes.size() - 1 : 0);
}

graph::ValueId Decoder::build_embedding(nn::Builder& b, graph::ValueId tokens, graph::ValueId row_positions,
                                        graph::ValueId* embedded) const {
  graph::Graph& g = b.graph();
  graph::ValueId x = graph::embedding(g, tokens, embedding, "embedding");
  if (embedded != nullptr) *embedded = x;
  for (const nn::LowRank& adapter : embedding_adapters) {
    const graph::ValueId low = graph::embedding(g, tokens, adapter.a, adapter.a.name);
    x = graph::add_scaled(g, x, nn::build_product(b, low, adapter.b), adapter.scale, adapter.b.name + ".add");
  }
  if (embedding_scale != 1) x = graph::scale(g, x, embedding_scale, "embedding_scale");
  if (positions)
    x = graph::add(g, x, graph::embedding(g, row_positions, positions, "positions"), "positions.add");
  return b.dropout(x, "embedding");
}

graph::ValueId Decoder::build_blocks(nn::Builder& b, graph::ValueId x, graph::ValueId row_positions,
                                     size_t begin, size_t end) const {
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
    x = blocks[i].build(b, x, {.queries = of(query_rope == kNoRope ? rope : query_rope), .keys = of(rope)});
  }
  return x;
}

TrainingValues Decoder::build_training(graph::Graph& g, const TrainingShape& shape) const {
  using graph::Elem;
  if (logit_cap > 0) fail(Errc::kUnsupported, "training: models that cap their logits cannot be trained yet");
  for (const nn::TransformerBlock& block : blocks)
    if (block.recurrent())
      fail(Errc::kUnsupported, "training: recurrent layers cannot be trained yet");
    else if (block.attention.sinks)
      fail(Errc::kUnsupported, "training: attention with sinks cannot be trained yet");
  if (!head.adapters.empty()) fail(Errc::kUnsupported, "training: adapters of the output layer");
  const auto n = static_cast<int64_t>(shape.sequences * shape.length);
  TrainingValues values;
  values.positions = g.input("positions", {Elem::kI32, {n}});
  if (last()) {
    values.targets = g.input("targets", {Elem::kI32, {n}});
    values.factor = g.input("factor", {Elem::kF32, {1}});
  }
  if (shape.dropout > 0) values.dropout_key = g.input("dropout_key", {Elem::kI32, {2}});
  nn::Builder b(g, {shape.length, shape.dropout, values.dropout_key, values.positions});
  graph::ValueId x;
  if (first()) {
    values.tokens = g.input("tokens", {Elem::kI32, {n}});
    x = build_embedding(b, values.tokens, values.positions, &values.embedded);
  } else {
    values.hidden = x = g.input("hidden", {Elem::kF32, {n, static_cast<int64_t>(config.dim)}});
  }
  x = build_blocks(b, x, values.positions, 0, blocks.size());
  if (!last()) {
    values.output = x;
    g.mark_output(x);
    return values;
  }
  x = norm.build(b, x);
  if (logit_scale != 1) x = graph::scale(g, x, logit_scale, "logit_scale");
  values.loss = graph::linear_cross_entropy(g, x, head.weight, values.targets, values.factor, shape.gradients,
                                            head.weight.name);
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

StageValues Decoder::build(graph::Graph& g, size_t rows, size_t output_rows, size_t normed_rows) const {
  using graph::Elem;
  const auto n = static_cast<int64_t>(rows);
  nn::Builder b(g);
  StageValues values;
  values.positions = g.input("positions", {Elem::kI32, {n}});
  graph::ValueId x;
  if (first()) {
    values.tokens = g.input("tokens", {Elem::kI32, {n}});
    x = build_embedding(b, values.tokens, values.positions);
  } else {
    values.hidden = x = g.input("hidden", {Elem::kF32, {n, static_cast<int64_t>(config.dim)}});
  }
  if (last()) values.selected = g.input("selected", {Elem::kI32, {static_cast<int64_t>(output_rows)}});
  if (last() && !head_owners.empty())
    values.candidates = g.input("candidates", {Elem::kI32, {static_cast<int64_t>(output_rows)}});
  x = build_blocks(b, x, values.positions, 0, blocks.size());
  if (last() && normed_rows > 0) {
    values.normed_selected = g.input("normed_selected", {Elem::kI32, {static_cast<int64_t>(normed_rows)}});
    values.normed = norm.build(b, graph::select_rows(g, x, values.normed_selected, "normed_rows"));
    g.mark_output(values.normed);
  }
  if (last()) {
    x = build_head(b, norm.build(b, graph::select_rows(g, x, values.selected, "selected_rows")),
                   values.candidates);
  }
  g.mark_output(x);
  values.output = x;
  return values;
}

StageValues Decoder::build_part(graph::Graph& g, size_t rows, const LayerRange& part) const {
  using graph::Elem;
  BF_CHECK(part.begin >= range.begin && part.end <= range.end && part.begin <= part.end &&
           (!part.has_embedding() || first()))
      << "blocks " << part.begin << " to " << part.end << " of " << range.begin << " to " << range.end;
  const auto n = static_cast<int64_t>(rows);
  nn::Builder b(g);
  StageValues values;
  values.positions = g.input("positions", {Elem::kI32, {n}});
  graph::ValueId x;
  if (part.has_embedding()) {
    values.tokens = g.input("tokens", {Elem::kI32, {n}});
    x = build_embedding(b, values.tokens, values.positions);
  } else {
    values.hidden = x = g.input("hidden", {Elem::kF32, {n, static_cast<int64_t>(config.dim)}});
  }
  values.output = x = build_blocks(b, x, values.positions, part.begin - range.begin, part.end - range.begin);
  g.mark_output(x);
  return values;
}

}  // namespace butterfly::model
