// The model's own block that predicts tokens ahead, with the keys and values it keeps: reads what the layers
// made of a step's rows, and drafts how each text goes on.
#pragma once
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "graph/executor.h"
#include "model/arch/predictor.h"
#include "model/cache/kv_memory.h"
#include "runtime/engine/step.h"

namespace butterfly::runtime {

// How many pages and texts there are, and how they are kept.
struct DraftBlockOptions {
  size_t pages = 0;      // as many as the layers have: the same numbers
  size_t sequences = 0;  // texts at once
  DType kv_type = DType::kF16;
  size_t rows_max = 512;  // of one run
  size_t threads = 1;     // of the pools that come with each call
};

// Position p of its cache comes from the token at p and the hidden row of p - 1; so it depends on no token
// behind p, and a page is as good for another text with the same beginning as those of the layers are. Where
// the hidden row in front is not known (at a text's first row here: the beginning, or behind pages that
// others left) it reads zeros. Drafts are guesses: whatever is here changes the time of a text, and never a
// token.
//
// One thread at a time. Borrows the predictor. After an exception: forget_all().
class DraftBlock {
 public:
  // Throws Error kOutOfMemory when the cache cannot be reserved.
  DraftBlock(const model::Predictor& predictor, size_t dim, size_t vocab, const DraftBlockOptions& options);

  void forget(uint32_t sequence) { texts_[sequence] = {}; }
  void forget_all();

  // Pages of each sequence, by block; borrowed for a call. Rows have theirs.
  using Pages = std::span<const std::span<const uint32_t>>;
  // The layers have computed these rows: [rows, dim] behind the last norm. Those that are certain come into
  // the cache; guesses wait until they are.
  void take(ThreadPool& pool, std::span<const StepRow> rows, std::span<const float> hidden, Pages pages);

  // How each text goes on behind the row that is asked for: at most so many tokens, none where the row in
  // front of it was not taken.
  std::vector<std::vector<int32_t>> draft(ThreadPool& pool, std::span<const DraftAsk> asks, Pages pages);

  uint64_t cache_bytes() const { return memory_.bytes(); }
  model::KvMemory& memory() { return memory_; }
  const model::KvMemory& memory() const { return memory_; }

 private:
  // What is known of a text's last rows, from position `first` on.
  struct Text {
    size_t seen = 0;  // positions whose pair of token and hidden row is in the cache
    size_t first = 0;
    std::vector<int32_t> tokens;
    std::vector<float> hidden;

    size_t end() const { return first + tokens.size(); }
  };
  struct Built {
    size_t rows, output_rows;
    model::PredictorValues values;
    std::unique_ptr<graph::Executor> executor;
  };
  // Rows for one run.
  struct Batch {
    std::vector<int32_t> tokens, selected;
    std::vector<graph::KvRow> rows;
    std::vector<float> hidden;
    void clear();
  };
  void add(uint32_t sequence, size_t position, int32_t token, const float* hidden);
  // The pairs of a text from seen on, up to position `end`, whose rows are known.
  void add_known(uint32_t sequence, size_t end);
  const float* hidden_at(const Text& text, size_t position) const;
  Built& built(size_t rows, size_t output_rows);
  // The batch; its outputs are in the built graph. Empties it.
  Built& run(ThreadPool& pool, Pages pages);
  void run_without_outputs(ThreadPool& pool, Pages pages);
  int32_t likeliest(const Built& b, size_t output) const;

  const model::Predictor& predictor_;
  const size_t dim_, vocab_;
  const DraftBlockOptions options_;
  model::KvMemory memory_;
  std::vector<Text> texts_;  // by sequence
  Batch batch_;
  const std::vector<float> zeros_;
  graph::Arena arena_;
  std::list<Built> built_;  // most recently used first
};

}  // namespace butterfly::runtime
