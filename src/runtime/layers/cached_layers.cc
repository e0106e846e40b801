#include "runtime/layers/cached_layers.h"

#include <algorithm>

#include "base/error.h"

namespace butterfly::runtime {
namespace {

CachedLayersOptions with_defaults(CachedLayersOptions options, const LoadedModel& model) {
  if (options.positions == 0) options.positions = model.config.context;
  return options;
}

}  // namespace

std::vector<model::LayerState> states_of(const LoadedModel& model) {
  check_sources(model.range, model.config.states);
  const auto begin = model.config.states.begin() + static_cast<ptrdiff_t>(model.range.begin);
  std::vector<model::LayerState> states(begin, begin + static_cast<ptrdiff_t>(model.range.blocks()));
  for (model::LayerState& state : states)
    if (state.kind == model::StateKind::kShared) state.source -= model.range.begin;
  return states;
}

CachedLayers::CachedLayers(const LoadedModel& model, ThreadPool& pool, const CachedLayersOptions& options)
    : options_(with_defaults(options, model)),
      cache_({states_of(model), options.kv_type}, options_.positions, options_.sequences),
      pool_(pool),
      runner_(model, pool.size()) {}

std::span<const float> CachedLayers::run(std::span<const BatchRow> rows, std::span<const float> hidden) {
  if (rows.empty()) return {};
  if (rows.size() > options_.rows_max)
    fail(Errc::kInvalidArgument, "a batch of {} rows, at most {} run at once", rows.size(),
         options_.rows_max);
  std::vector<graph::KvRow> kv_rows;
  std::vector<int32_t> tokens, selected, candidates;
  for (size_t i = 0; i < rows.size(); ++i) {
    const BatchRow& row = rows[i];
    runner_.check(row.token, row.position);
    if (row.sequence >= cache_.sequences())
      fail(Errc::kInvalidArgument, "sequence {} of {}", row.sequence, cache_.sequences());
    if (!cache_.reserve(row.sequence, size_t{row.position} + 1))
      fail(Errc::kOutOfMemory, "the key/value cache is full: position {} of sequence {}, {} positions in all",
           row.position, row.sequence, options_.positions);
    kv_rows.push_back({row.sequence, row.position});
    tokens.push_back(row.token);
    if (!row.wants_logits) continue;
    selected.push_back(static_cast<int32_t>(i));
    candidates.push_back(row.candidates);
  }
  const BatchRunner::Output output = runner_.run(
      pool_,
      {.tokens = tokens, .hidden = hidden, .selected = selected, .normed = {}, .candidates = candidates},
      cache_.step(kv_rows));
  return model().has_head() ? output.logits : output.hidden;
}

graph::Cost CachedLayers::cost(size_t rows, size_t output_rows, size_t context) const {
  graph::Graph graph;
  model().network->build(graph, rows, output_rows);
  const DTypeInfo& kv = dtype_info(options_.kv_type);
  return graph.cost(
      {.context = context, .kv_value_bytes = std::max<size_t>(1, kv.block_bytes / kv.block_values)});
}

}  // namespace butterfly::runtime
