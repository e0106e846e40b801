#include "runtime/stage.h"

#include <algorithm>

#include "base/error.h"

namespace butterfly::runtime {
namespace {

constexpr size_t kBuiltMax = 8;

StageOptions with_defaults(StageOptions options, const LoadedModel& model) {
  if (options.positions == 0) options.positions = model.config.context;
  return options;
}

model::KvShape kv_shape(const LoadedModel& model, DType kv_type) {
  return {.layers = model.range.end - model.range.begin,
          .kv_heads = model.config.kv_heads,
          .layout = {kv_type, model.config.head_dim}};
}

}  // namespace

LocalStage::LocalStage(const LoadedModel& model, ThreadPool& pool, const StageOptions& options)
    : model_(model),
      pool_(pool),
      options_(with_defaults(options, model)),
      cache_(kv_shape(model, options.kv_type), options_.positions, options_.sequences) {}

LocalStage::Built& LocalStage::built(size_t rows, size_t output_rows) {
  auto it = std::find_if(built_.begin(), built_.end(),
                         [&](const Built& b) { return b.rows == rows && b.output_rows == output_rows; });
  if (it == built_.end()) {
    graph::Graph graph;
    const model::StageValues values = model_.network->build(graph, rows, output_rows);
    built_.push_front(
        {rows, output_rows, values, std::make_unique<graph::Executor>(std::move(graph), arena_, pool_), 0});
    if (built_.size() > kBuiltMax) built_.pop_back();
  } else {
    built_.splice(built_.begin(), built_, it);
  }
  return built_.front();
}

std::span<const float> LocalStage::run(std::span<const BatchRow> rows) {
  if (rows.empty()) return {};
  if (rows.size() > options_.rows_max)
    fail(Errc::kInvalidArgument, "a batch of {} rows, at most {} run at once", rows.size(),
         options_.rows_max);
  std::vector<graph::KvRow> kv_rows;
  std::vector<int32_t> selected;
  for (size_t i = 0; i < rows.size(); ++i) {
    const BatchRow& row = rows[i];
    if (row.token < 0 || static_cast<size_t>(row.token) >= model_.config.vocab)
      fail(Errc::kInvalidArgument, "token {} is outside the vocabulary of {}", row.token,
           model_.config.vocab);
    if (row.sequence >= cache_.sequences())
      fail(Errc::kInvalidArgument, "sequence {} of {}", row.sequence, cache_.sequences());
    if (model_.config.positions_max > 0 && row.position >= model_.config.positions_max)
      fail(Errc::kInvalidArgument, "position {}: the model has learned {} positions", row.position,
           model_.config.positions_max);
    if (!cache_.reserve(row.sequence, size_t{row.position} + 1))
      fail(Errc::kOutOfMemory, "the key/value cache is full: position {} of sequence {}, {} positions in all",
           row.position, row.sequence, options_.positions);
    kv_rows.push_back({row.sequence, row.position});
    if (row.wants_logits) selected.push_back(static_cast<int32_t>(i));
  }
  // Graphs have at least one output row; without any wanted the last row's is dropped.
  const size_t wanted = selected.size();
  if (selected.empty()) selected.push_back(static_cast<int32_t>(rows.size()) - 1);

  Built& b = built(rows.size(), selected.size());
  auto* tokens = reinterpret_cast<int32_t*>(b.executor->input(b.values.tokens));
  auto* positions = reinterpret_cast<int32_t*>(b.executor->input(b.values.positions));
  for (size_t i = 0; i < rows.size(); ++i) {
    tokens[i] = rows[i].token;
    positions[i] = static_cast<int32_t>(rows[i].position);
  }
  std::copy(selected.begin(), selected.end(),
            reinterpret_cast<int32_t*>(b.executor->input(b.values.selected)));
  b.executor->set_profiling(profiling_);
  b.runs += profiling_;
  const graph::KvStep step = cache_.step(kv_rows);
  b.executor->run(&step);
  return {b.executor->output(b.values.output), wanted * model_.config.vocab};
}

graph::Cost LocalStage::cost(size_t rows, size_t output_rows, size_t context) const {
  graph::Graph graph;
  model_.network->build(graph, rows, output_rows);
  const DTypeInfo& kv = dtype_info(options_.kv_type);
  return graph.cost(
      {.context = context, .kv_value_bytes = std::max<size_t>(1, kv.block_bytes / kv.block_values)});
}

std::vector<LocalStage::OpTime> LocalStage::profile() const {
  std::vector<OpTime> times;
  for (const Built& b : built_)
    for (size_t i = 0; i < b.executor->graph().nodes().size(); ++i) {
      const std::string_view name = b.executor->graph().nodes()[i].op->name;
      auto it = std::find_if(times.begin(), times.end(), [&](const OpTime& t) { return t.op == name; });
      if (it == times.end()) it = times.insert(times.end(), OpTime{.op = name});
      it->calls += b.runs;
      it->ns += b.executor->node_ns()[i];
    }
  std::sort(times.begin(), times.end(), [](const OpTime& a, const OpTime& b) { return a.ns > b.ns; });
  return times;
}

}  // namespace butterfly::runtime
