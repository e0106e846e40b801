// Runs batches of rows through a model's layers on this machine, with a key/value cache.
#pragma once
#include <span>
#include <vector>

#include "model/cache/kv_cache.h"
#include "runtime/layers/batch_runner.h"

namespace butterfly::runtime {

// One row of a batch: a token at a position of a sequence. Rows of one sequence stand in order.
struct BatchRow {
  int32_t token;
  uint32_t sequence;
  uint32_t position;
  bool wants_logits;
  int32_t candidates = 0;  // the first so many logits are enough; 0: all
};

struct CachedLayersOptions {
  size_t positions = 0;  // of the cache, over all sequences; 0: the model's context
  size_t sequences = 1;
  DType kv_type = DType::kF16;
  size_t rows_max = 512;  // per run; more are an error
};

// The layers of a model, or a range of them, with a cache of their own: for one caller that runs batch after
// batch. (An engine places the pages of the cache itself: engine/paged_layers.h.)
//
// One thread at a time. Borrows model and pool. After an error the cache holds what it held, and perhaps
// positions of the failed batch: truncate() those before going on.
class CachedLayers {
 public:
  CachedLayers(const LoadedModel& model, ThreadPool& pool, const CachedLayersOptions& options);

  // Runs the rows; the result has one row of `vocab` logits for each row that wants them, in order. It is
  // valid until the next run. Throws Error kInvalidArgument for tokens outside the vocabulary, kOutOfMemory
  // when the cache is full.
  std::span<const float> run(std::span<const BatchRow> rows) { return run(rows, {}); }
  // The same for a part of the chain: reads `hidden` [rows, row_cols()] where the embedding is elsewhere,
  // gives hidden rows where the head is.
  std::span<const float> run(std::span<const BatchRow> rows, std::span<const float> hidden);

  // As BatchRunner::set_exchange().
  void set_exchange(graph::Exchange* exchange) { runner_.set_exchange(exchange); }

  model::KvCache& cache() { return cache_; }
  const LoadedModel& model() const { return runner_.model(); }
  size_t rows_max() const { return options_.rows_max; }
  size_t positions() const { return options_.positions; }
  size_t activation_bytes() const { return runner_.activation_bytes(); }

  // Flops and bytes of one run of `rows` rows over `context` cached positions.
  graph::Cost cost(size_t rows, size_t output_rows, size_t context) const;

  // Time by operation, summed over all runs since it was switched on.
  void set_profiling(bool on) { runner_.set_profiling(on); }
  std::vector<BatchRunner::OpTime> profile() const { return runner_.profile(); }

 private:
  CachedLayersOptions options_;
  model::KvCache cache_;
  ThreadPool& pool_;
  BatchRunner runner_;
};

// What the blocks of a range keep.
std::vector<model::LayerState> states_of(const LoadedModel& model);

}  // namespace butterfly::runtime
