#include "runtime/layers/batch_runner.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"

namespace butterfly::runtime {
namespace {

// Shapes whose graphs are kept. A server's steps differ in rows from one to the next.
constexpr size_t kBuiltMax = 32;

}  // namespace

void BatchRunner::check(int32_t token, size_t position) const {
  const model::ModelConfig& config = model_.config;
  if (token < 0 || static_cast<size_t>(token) >= config.vocab)
    fail(Errc::kInvalidArgument, "token {} is outside the vocabulary of {}", token, config.vocab);
  if (config.positions_max > 0 && position >= config.positions_max)
    fail(Errc::kInvalidArgument, "position {}: the model has learned {} positions", position,
         config.positions_max);
}

BatchRunner::Built& BatchRunner::built(size_t rows, size_t output_rows, size_t normed_rows,
                                       const std::optional<model::LayerRange>& part) {
  auto it = std::find_if(built_.begin(), built_.end(), [&](const Built& b) {
    return b.rows == rows && b.output_rows == output_rows && b.normed_rows == normed_rows && b.part == part;
  });
  if (it == built_.end()) {
    graph::Graph graph;
    const model::StageValues values = part ? model_.network->build_part(graph, rows, *part)
                                           : model_.network->build(graph, rows, output_rows, normed_rows);
    built_.push_front({rows, output_rows, normed_rows, part, values,
                       std::make_unique<graph::Executor>(std::move(graph), arena_, threads_), 0});
    if (built_.size() > kBuiltMax) built_.pop_back();
  } else {
    built_.splice(built_.begin(), built_, it);
  }
  return built_.front();
}

// Inputs that all graphs have, and the run.
void BatchRunner::run(Built& b, bool embeds, ThreadPool& pool, const Input& input, const graph::KvStep& kv) {
  if (embeds)
    std::ranges::copy(input.tokens, reinterpret_cast<int32_t*>(b.executor->input(b.values.tokens)));
  else
    std::ranges::copy(input.hidden, reinterpret_cast<float*>(b.executor->input(b.values.hidden)));
  std::ranges::transform(kv.rows, reinterpret_cast<int32_t*>(b.executor->input(b.values.positions)),
                         [](const graph::KvRow& row) { return static_cast<int32_t>(row.position); });
  b.executor->set_profiling(profiling_);
  b.runs += profiling_;
  b.executor->run(&kv, pool, exchange_);
}

std::span<const float> BatchRunner::run_part(ThreadPool& pool, const model::LayerRange& part,
                                             const Input& input, const graph::KvStep& kv) {
  const size_t rows = kv.rows.size(), dim = model_.config.row_cols();
  const bool embeds = part.has_embedding();
  BF_CHECK(rows > 0 && (embeds ? input.tokens.size() == rows : input.hidden.size() == rows * dim))
      << rows << " rows, " << input.tokens.size() << " tokens, " << input.hidden.size() << " values";
  Built& b = built(rows, 0, 0, part);
  run(b, embeds, pool, input, kv);
  return {b.executor->output(b.values.output), rows * dim};
}

BatchRunner::Output BatchRunner::run(ThreadPool& pool, const Input& input, const graph::KvStep& kv) {
  const size_t rows = kv.rows.size(), dim = model_.config.row_cols();
  const bool embeds = model_.has_embedding(), ends = model_.has_head();
  BF_CHECK(rows > 0 && (embeds ? input.tokens.size() == rows : input.hidden.size() == rows * dim))
      << rows << " rows, " << input.tokens.size() << " tokens, " << input.hidden.size() << " values";
  // Graphs have at least one output row; without any wanted the last row's is dropped.
  const size_t wanted = input.selected.size();
  BF_CHECK(input.candidates.empty() || input.candidates.size() == wanted)
      << input.candidates.size() << " of " << wanted;
  const auto last = static_cast<int32_t>(rows) - 1;
  const auto selected = wanted == 0 ? std::span<const int32_t>{&last, 1} : input.selected;
  const auto normed = ends ? input.normed : std::span<const int32_t>{};

  Built& b = built(rows, ends ? selected.size() : 1, normed.size(), std::nullopt);
  const auto ints = [&](graph::ValueId value) {
    return reinterpret_cast<int32_t*>(b.executor->input(value));
  };
  if (ends) std::ranges::copy(selected, ints(b.values.selected));
  if (!normed.empty()) std::ranges::copy(normed, ints(b.values.normed_selected));
  if (ends && b.values.candidates.valid()) {
    int32_t* candidates = ints(b.values.candidates);
    std::fill_n(candidates, selected.size(), wanted == 0 ? 1 : 0);  // of one that is dropped, one
    std::ranges::copy(input.candidates, candidates);
  }
  run(b, embeds, pool, input, kv);
  const float* values = b.executor->output(b.values.output);
  if (!ends) return {.hidden = {values, rows * dim}, .logits = {}, .normed = {}};
  Output output{.hidden = {}, .logits = {values, wanted * model_.config.vocab}, .normed = {}};
  if (!normed.empty())
    output.normed = {b.executor->output(b.values.normed), normed.size() * model_.config.dim};
  return output;
}

std::vector<BatchRunner::OpTime> BatchRunner::profile() const {
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
