#include "train/networks/greedy_text.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "graph/executor.h"
#include "kernels/rows/reduce.h"
#include "model/cache/kv_cache.h"

namespace butterfly::train {
namespace {

// One graph for runs of so many rows, of which the last one's logits are wanted.
class Stage {
 public:
  Stage(const model::Network& network, size_t rows, size_t vocab, graph::Arena& arena, ThreadPool& pool)
      : vocab_(vocab) {
    graph::Graph graph;
    values_ = network.build(graph, rows, 1);
    executor_ = std::make_unique<graph::Executor>(std::move(graph), arena, pool);
  }

  int32_t next(std::span<const int32_t> tokens, size_t first, model::KvCache& cache) {
    std::vector<int32_t> positions(tokens.size());
    std::vector<graph::KvRow> rows(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      positions[i] = static_cast<int32_t>(first + i);
      rows[i] = {0, static_cast<uint32_t>(first + i)};
    }
    const auto selected = static_cast<int32_t>(tokens.size() - 1);
    std::memcpy(executor_->input(values_.tokens), tokens.data(), tokens.size_bytes());
    std::memcpy(executor_->input(values_.positions), positions.data(), tokens.size_bytes());
    std::memcpy(executor_->input(values_.selected), &selected, sizeof(selected));
    const graph::KvStep step = cache.step(rows);
    executor_->run(&step);
    return static_cast<int32_t>(kernels::argmax(executor_->output(values_.output), vocab_));
  }

 private:
  size_t vocab_;
  model::StageValues values_;
  std::unique_ptr<graph::Executor> executor_;
};

}  // namespace

std::vector<int32_t> greedy_tokens(const model::Network& network, const model::ModelConfig& config,
                                   std::span<const int32_t> prompt, size_t count,
                                   const std::function<bool(int32_t)>& ends, ThreadPool& pool) {
  if (prompt.empty() || prompt.size() >= config.context) return {};
  const size_t positions = std::min<size_t>(config.context, prompt.size() + count);
  model::KvCache cache({.layers = config.states, .kv_type = DType::kF16}, positions, 1);
  if (!cache.reserve(0, positions)) fail(Errc::kOutOfMemory, "a cache of {} positions", positions);
  graph::Arena arena;
  std::vector<int32_t> said;
  int32_t token = Stage(network, prompt.size(), config.vocab, arena, pool).next(prompt, 0, cache);
  Stage one(network, 1, config.vocab, arena, pool);
  while (!ends(token)) {
    said.push_back(token);
    if (prompt.size() + said.size() >= positions) break;
    token = one.next({&token, 1}, prompt.size() + said.size() - 1, cache);
  }
  return said;
}

}  // namespace butterfly::train
