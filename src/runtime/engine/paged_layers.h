// A range of a model's layers on this machine with a paged cache: places pages as it is told, checks rows,
// runs them.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/compute.h"
#include "runtime/engine/adapter_table.h"
#include "runtime/engine/chain.h"
#include "runtime/engine/engine_options.h"
#include "runtime/engine/page_source.h"
#include "runtime/engine/stage_cache.h"
#include "runtime/layers/batch_runner.h"

namespace butterfly::runtime {

class DraftBlock;

// What an engine may know of a chain: of the model, and of the options.
ChainInfo chain_info(const LoadedModel& model, const PagedLayersOptions& options);
// Pages of each kind, of all stages of such a chain.
model::CacheRoom cache_room(const LoadedModel& model, const PagedLayersOptions& options);

// Trusts nobody: what it is told may come from another machine. One thread at a time. Borrows the model and
// what computes.
class PagedLayers {
 public:
  // Throws Error kOutOfMemory when the cache cannot be reserved.
  PagedLayers(const LoadedModel& model, Compute& compute, const PagedLayersOptions& options);
  ~PagedLayers();

  const ChainInfo& info() const { return info_; }
  const LoadedModel& model() const { return runner_.model(); }
  size_t cache_bytes() const;

  // As BatchRunner::set_exchange(). Then run() may give its errors too, behind which the members of a group
  // cannot go on together.
  void set_exchange(graph::Exchange* exchange) { runner_.set_exchange(exchange); }

  // Drops the cache's contents.
  void forget_all();
  // No page is placed any more, but what they hold stays.
  void unplace_all();
  // What is left of these pages here, and could be had from other nodes.
  void report(std::span<const PageClaim> claims, CacheReport& into) const;
  // Has them sent; none: and none later. cancel_fetch() comes from any thread: also later ones end at once.
  void fetch(std::span<const PageClaim> claims, Duration limit);
  void cancel_fetch();

  // Takes over a step: applies the commands, then checks all rows. kInvalidArgument says what is wrong; then
  // forget_all() before anything else. Every position up to a row's own must have a page, rows of one
  // sequence stand together with consecutive positions, tokens are of the vocabulary.
  // A fill may concern these layers or not; see takes_values() and Output::hidden.
  Status prepare(std::span<const KvCommand> commands, std::span<const StepRow> rows, LayerSpan fill = {});
  // Of a step whose rows are not computed here: the next ones write over their positions.
  Status apply_all(std::span<const KvCommand> commands);
  // Whether a step brings values from the stage before.
  bool takes_values(LayerSpan fill) const;

  // The rows of the last prepare(), with their values [rows, dim] where the embedding is elsewhere. Hidden
  // rows come out where the head is elsewhere, of a fill where the next stage needs them. Valid until the
  // next run. kOutOfMemory when there is no room for the activations. Takes a turn of the
  // pool for it.
  Result<BatchRunner::Output> run(std::span<const float> hidden);

  // As Chain::draft(), for options with `predict`. The request's epoch is the caller's business.
  Result<std::vector<std::vector<int32_t>>> draft(const DraftRequest& request);

  // As CachePages; for a cache of its own, whose contents nobody asks for by name.
  size_t page_size(graph::PageKind kind) const;
  void read_page(graph::PageKind kind, uint32_t page, std::span<std::byte> into) const;
  void write_page(graph::PageKind kind, uint32_t page, size_t positions, std::span<const std::byte> from);

  // Chain::for_each() by the pool, unless others compute.
  void for_each(size_t count, FunctionRef<void(size_t)> fn);

 private:
  struct Placed {
    std::array<std::vector<uint32_t>, graph::kPageKinds> pages;  // by kind, by block
    size_t whole = 0;   // so many blocks from the first on have a page for all positions
    uint64_t step = 0;  // last prepare() with rows of it
    // Recurrent layers: positions that the state has seen, and guesses behind them that can be replayed.
    // Nothing: not known, as behind pages that were just placed.
    std::optional<size_t> seen;
    size_t guesses = 0;

    const std::vector<uint32_t>& of(graph::PageKind kind) const { return pages[static_cast<size_t>(kind)]; }
    void clear();
    void forget_state();
  };
  void end_moves();
  Status apply(const KvCommand& command);
  Status check(std::span<const StepRow> rows, size_t index);
  Status name_adapters(std::span<const StepRow> rows);
  Status name_rows(std::span<const StepRow> rows);
  uint32_t page_of(uint32_t sequence, size_t position) const;
  Status prepare_fill(std::span<const StepRow> rows);
  Status prepare_states(std::span<const StepRow> rows);
  Status begin_state(const StepRow& row, graph::StateRun& run);
  bool has_state(const StepRow& row, size_t seen) const;
  Result<BatchRunner::Output> compute(std::span<const float> hidden);
  BatchRunner::Output compute_part(ThreadPool& pool, std::span<const float> hidden, const graph::KvStep& kv);
  void keep_rows(std::span<const float> hidden);
  Status check(const DraftAsk& ask) const;
  model::PageTables page_tables();
  void predict(ThreadPool& pool, BatchRunner::Output& output);

  ChainInfo info_;
  const StageCacheUse cache_;
  BatchRunner runner_;
  Compute& compute_;
  const std::shared_ptr<AdapterTable> table_;  // null: rows name no adapters
  const std::shared_ptr<PageSource> source_;   // null: there is none
  bool source_done_ = false;
  std::unique_ptr<DraftBlock> block_;  // null: nothing is predicted
  std::vector<Placed> sequences_;
  std::array<std::vector<std::span<const uint32_t>>, graph::kPageKinds> page_views_;
  std::vector<uint32_t> states_seen_;  // [state page]: positions in it; where the cache has no names
  uint64_t prepared_ = 0;
  std::vector<bool> placed_pages_;  // as of the last prepare(); empty: not looked at yet
  // Of the step under way.
  std::vector<int32_t> tokens_, selected_, candidates_, normed_;
  // What its rows name: held while it is computed, and for each row which of them.
  std::vector<AdapterPtr> adapters_;
  std::vector<const graph::AdapterLayers*> adapter_layers_;
  std::vector<int32_t> row_adapters_;  // empty: none names any
  std::vector<graph::KvRow> rows_;
  std::vector<graph::StateRun> state_runs_;
  // Where states are written, in order: a page may come twice, in several blocks.
  struct StateWrite {
    uint32_t page;
    Lineage behind;
  };
  std::vector<StateWrite> state_writes_;
  std::vector<float> kept_;  // rows that a fill begins with
  // With a block that predicts: the rows, and those hidden ones that were asked for.
  std::vector<StepRow> step_rows_;
  std::vector<float> asked_hidden_;
  LayerSpan fill_;
  bool fills_ = true;                        // false: a fill that only passes by
  size_t first_layer_ = 0, last_layer_ = 0;  // that the step passes here; equal: none
};

}  // namespace butterfly::runtime
