// Runs batches of rows through a model's layers, or a range of them, on this machine. The cache is the
// caller's.
#pragma once
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "graph/executor.h"
#include "runtime/layers/loaded_model.h"

namespace butterfly::runtime {

// One thread at a time. Borrows the model. Graphs are kept for the last few batch shapes.
class BatchRunner {
 public:
  // `threads`: of the pools that run() gets.
  BatchRunner(const LoadedModel& model, size_t threads) : model_(model), threads_(threads) {}
  // The other members, for a model that has a part of shared layers; borrowed. Then run() throws what it
  // does.
  void set_exchange(graph::Exchange* exchange) { exchange_ = exchange; }

  // Throws Error kInvalidArgument for a token outside the vocabulary or a position the model does not have.
  void check(int32_t token, size_t position) const;

  // Row i is at kv.rows[i]. A model with its embedding reads `tokens`, a later part of the chain `hidden`.
  struct Input {
    std::span<const int32_t> tokens = {};    // [rows]
    std::span<const float> hidden = {};      // [rows, row_cols()]
    std::span<const int32_t> selected = {};  // indices of rows whose logits are wanted, if the head is here
    std::span<const int32_t> normed = {};    // and of those wanted as the head reads them
    // Of each selected row, the first so many logits are enough (0: all of them). Empty: all of every row.
    std::span<const int32_t> candidates = {};
    // [rows]: the adapter that each names, as an index into kv.adapters; not read if there are none.
    std::span<const int32_t> adapters = {};
  };
  struct Output {
    std::span<const float> hidden;  // [rows, row_cols()], if the head is elsewhere
    std::span<const float> logits;  // [selected, vocab]
    std::span<const float> normed;  // [normed, dim]
  };
  // At least one row. The output is valid until the next run.
  Output run(ThreadPool& pool, const Input& input, const graph::KvStep& kv);
  // The same through a part of the blocks: `tokens` if the part has the embedding, else `hidden`; hidden rows
  // come out.
  std::span<const float> run_part(ThreadPool& pool, const model::LayerRange& part, const Input& input,
                                  const graph::KvStep& kv);

  size_t activation_bytes() const { return arena_.bytes(); }
  const LoadedModel& model() const { return model_; }

  // Time by operation, summed over all runs since it was switched on.
  struct OpTime {
    std::string_view op;
    uint64_t calls = 0;
    uint64_t ns = 0;
  };
  void set_profiling(bool on) { profiling_ = on; }
  std::vector<OpTime> profile() const;

 private:
  struct Built {
    size_t rows, output_rows, normed_rows;
    size_t adapter_rank;                    // 0: rows name no adapters, and nothing is built for that
    std::optional<model::LayerRange> part;  // none: all
    model::StageValues values;
    std::unique_ptr<graph::Executor> executor;
    uint64_t runs = 0;
  };
  Built& built(size_t rows, size_t output_rows, size_t normed_rows, size_t adapter_rank,
               const std::optional<model::LayerRange>& part);
  void fill_head(Built& b, const Input& input, size_t wanted);
  void fill(Built& b, bool embeds, const Input& input, const graph::KvStep& kv);
  void run(Built& b, bool embeds, ThreadPool& pool, const Input& input, const graph::KvStep& kv);
  // Rows of the first half of a step whose halves take turns: one computes while what the other exchanges is
  // under way. 0: in one piece. The same at every member.
  size_t first_half(const Input& input, const graph::KvStep& kv) const;
  Output run_in_turns(ThreadPool& pool, const Input& input, const graph::KvStep& kv, size_t first);

  const LoadedModel& model_;
  const size_t threads_;
  graph::Exchange* exchange_ = nullptr;
  graph::Arena arena_;
  std::list<Built> built_;     // most recently used first
  std::vector<float> hidden_;  // rows of both halves
  bool profiling_ = false;
};

}  // namespace butterfly::runtime
