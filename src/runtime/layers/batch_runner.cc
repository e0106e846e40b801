#include "runtime/layers/batch_runner.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/checked.h"
#include "base/error.h"
#include "tensor/buffer.h"

namespace butterfly::runtime {
namespace {

// Shapes whose graphs are kept. A server's steps differ in rows from one to the next.
constexpr size_t kBuiltMax = 32;
// From so many rows on, what shared layers exchange is worth a step in two halves: products of half as many
// rows are as fast, and some hundred kilobytes travel meanwhile.
constexpr size_t kRowsInTurns = 128;
// Graphs have room for adapters of a power of two, at least this: their ranks differ from step to step.
constexpr size_t kAdapterRank = 16;

// 0: no row names an adapter.
size_t rank_for(const graph::KvStep& kv) {
  size_t rank = 0;
  for (const graph::AdapterLayers* adapter : kv.adapters) rank = std::max(rank, adapter->rank_max);
  return rank == 0 ? 0 : std::bit_ceil(std::max(rank, kAdapterRank));
}

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
                                       size_t adapter_rank, const std::optional<model::LayerRange>& part) {
  auto it = std::find_if(built_.begin(), built_.end(), [&](const Built& b) {
    return b.rows == rows && b.output_rows == output_rows && b.normed_rows == normed_rows &&
           b.adapter_rank == adapter_rank && b.part == part;
  });
  if (it == built_.end()) {
    graph::Graph graph;
    const model::StageValues values =
        part ? model_.network->build_part(graph, rows, *part, adapter_rank)
             : model_.network->build(graph, rows, output_rows, normed_rows, adapter_rank);
    built_.push_front({rows, output_rows, normed_rows, adapter_rank, part, values,
                       std::make_unique<graph::Executor>(std::move(graph), arena_, threads_), 0});
    if (built_.size() > kBuiltMax) built_.pop_back();
  } else {
    built_.splice(built_.begin(), built_, it);
  }
  return built_.front();
}

// Inputs that all graphs have.
void BatchRunner::fill(Built& b, bool embeds, const Input& input, const graph::KvStep& kv) {
  if (embeds)
    std::ranges::copy(input.tokens, reinterpret_cast<int32_t*>(b.executor->input(b.values.tokens)));
  else
    std::ranges::copy(input.hidden, reinterpret_cast<float*>(b.executor->input(b.values.hidden)));
  std::ranges::transform(kv.rows, reinterpret_cast<int32_t*>(b.executor->input(b.values.positions)),
                         [](const graph::KvRow& row) { return static_cast<int32_t>(row.position); });
  if (b.values.adapters.valid()) {
    BF_CHECK(input.adapters.size() == kv.rows.size()) << input.adapters.size() << " of " << kv.rows.size();
    std::ranges::copy(input.adapters, reinterpret_cast<int32_t*>(b.executor->input(b.values.adapters)));
  }
  b.executor->set_profiling(profiling_);
  b.runs += profiling_;
}

void BatchRunner::run(Built& b, bool embeds, ThreadPool& pool, const Input& input, const graph::KvStep& kv) {
  b.executor->set_place(0);
  fill(b, embeds, input, kv);
  b.executor->run(&kv, pool, exchange_);
}

// Recurrent layers know where their rows begin and end in a step; rows whose logits are wanted stand in the
// second half, so that the head runs once.
size_t BatchRunner::first_half(const Input& input, const graph::KvStep& kv) const {
  const size_t rows = kv.rows.size();
  if (exchange_ == nullptr || exchange_->members() < 2 || rows < kRowsInTurns || !kv.state_runs.empty() ||
      !input.normed.empty() || !kv.adapters.empty() || graph::reduces_first(exchange_->members(), rows))
    return 0;
  size_t half = rows / 2 / 32 * 32;
  if (model_.has_head() && !input.selected.empty())
    half = std::min(half, static_cast<size_t>(std::ranges::min(input.selected)) / 32 * 32);
  return half < rows / 4 ? 0 : half;
}

BatchRunner::Output BatchRunner::run_in_turns(ThreadPool& pool, const Input& input, const graph::KvStep& kv,
                                              size_t first) {
  const size_t rows = kv.rows.size(), rest = rows - first, dim = model_.config.row_cols();
  const bool embeds = model_.has_embedding(), ends = model_.has_head();
  model::LayerRange layers = model_.range;
  layers.without_head = true;
  std::vector<int32_t> selected;
  for (const int32_t row : input.selected) selected.push_back(row - static_cast<int32_t>(first));
  if (selected.empty()) selected.push_back(static_cast<int32_t>(rest) - 1);  // graphs have at least one

  Built& one = built(first, 0, 0, 0, layers);
  Built& other = ends ? built(rest, selected.size(), 0, 0, std::nullopt) : built(rest, 0, 0, 0, layers);
  const size_t behind = round_up(one.executor->plan().arena_bytes, kAlignment);
  one.executor->set_place(0);
  other.executor->set_place(behind);
  arena_.ensure(behind + other.executor->plan().arena_bytes);  // once: what it holds goes when it grows

  Input begin = input, end = input;
  graph::KvStep kv_begin = kv, kv_end = kv;
  kv_begin.rows = kv.rows.first(first);
  kv_end.rows = kv.rows.subspan(first);
  if (embeds) {
    begin.tokens = input.tokens.first(first);
    end.tokens = input.tokens.subspan(first);
  } else {
    begin.hidden = input.hidden.first(first * dim);
    end.hidden = input.hidden.subspan(first * dim);
  }
  fill(one, embeds, begin, kv_begin);
  fill(other, embeds, end, kv_end);
  if (ends) {
    end.selected = selected;
    fill_head(other, end, input.selected.size());
  }
  {
    graph::RunInPieces first_run(*one.executor, &kv_begin, pool, exchange_);
    graph::RunInPieces second_run(*other.executor, &kv_end, pool, exchange_);
    bool first_goes_on = true, second_goes_on = true;
    while (first_goes_on || second_goes_on) {
      first_goes_on = first_goes_on && first_run.run_piece();
      second_goes_on = second_goes_on && second_run.run_piece();
    }
  }
  const float* values = other.executor->output(other.values.output);
  if (ends)
    return {.hidden = {}, .logits = {values, input.selected.size() * model_.config.vocab}, .normed = {}};
  hidden_.resize(rows * dim);
  std::copy_n(one.executor->output(one.values.output), first * dim, hidden_.begin());
  std::copy_n(values, rest * dim, hidden_.begin() + static_cast<ptrdiff_t>(first * dim));
  return {.hidden = hidden_, .logits = {}, .normed = {}};
}

// What the head's graph reads beside its rows; `wanted` of the selected ones count.
void BatchRunner::fill_head(Built& b, const Input& input, size_t wanted) {
  const auto ints = [&](graph::ValueId value) {
    return reinterpret_cast<int32_t*>(b.executor->input(value));
  };
  std::ranges::copy(input.selected, ints(b.values.selected));
  if (!input.normed.empty()) std::ranges::copy(input.normed, ints(b.values.normed_selected));
  if (b.values.candidates.valid()) {
    int32_t* candidates = ints(b.values.candidates);
    std::fill_n(candidates, input.selected.size(), wanted == 0 ? 1 : 0);  // of one that is dropped, one
    std::ranges::copy(input.candidates, candidates);
  }
}

std::span<const float> BatchRunner::run_part(ThreadPool& pool, const model::LayerRange& part,
                                             const Input& input, const graph::KvStep& kv) {
  const size_t rows = kv.rows.size(), dim = model_.config.row_cols();
  const bool embeds = part.has_embedding();
  BF_CHECK(rows > 0 && (embeds ? input.tokens.size() == rows : input.hidden.size() == rows * dim))
      << rows << " rows, " << input.tokens.size() << " tokens, " << input.hidden.size() << " values";
  Built& b = built(rows, 0, 0, rank_for(kv), part);
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
  if (const size_t first = first_half(input, kv); first > 0) return run_in_turns(pool, input, kv, first);
  const auto last = static_cast<int32_t>(rows) - 1;
  const auto selected = wanted == 0 ? std::span<const int32_t>{&last, 1} : input.selected;
  const auto normed = ends ? input.normed : std::span<const int32_t>{};

  Built& b = built(rows, ends ? selected.size() : 1, normed.size(), rank_for(kv), std::nullopt);
  b.executor->set_place(0);
  if (ends) {
    Input of_head = input;
    of_head.selected = selected;
    fill_head(b, of_head, wanted);
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
