#include "runtime/engine/paged_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <optional>

#include "base/check.h"
#include "base/checked.h"
#include "runtime/engine/draft_block.h"
#include "runtime/layers/cached_layers.h"

namespace butterfly::runtime {
namespace {

using graph::kNoPage;
using graph::PageKind;
using kernels::kKvPage;

constexpr uint64_t kPoolLast = 3;  // llama.cpp's number for "the last token's" in <architecture>.pooling_type

}  // namespace

model::CacheRoom cache_room(const LoadedModel& model, const PagedLayersOptions& options) {
  return model::cache_room(model.config.states,
                           {.positions = options.positions == 0 ? model.config.context : options.positions,
                            .sequences = options.sequences,
                            .rows_max = options.rows_max,
                            .cut_windows = options.cut_windows});
}

ChainInfo chain_info(const LoadedModel& model, const PagedLayersOptions& options) {
  const model::ModelConfig& config = model.config;
  const size_t context = std::max(config.context, config.run_context);
  const std::string pooling = config.architecture + ".pooling_type";
  const model::CacheRoom room = cache_room(model, options);
  return {.vocab = config.vocab,
          .dim = config.dim,
          .row_cols = config.row_cols(),
          .layers = config.layers,
          .context = config.positions_max == 0 ? context : std::min(context, config.positions_max),
          .pages = room.of(PageKind::kFull),
          .page_positions = kKvPage,
          .window_pages = room.of(PageKind::kWindow),
          .window = room.window,
          .state_pages = room.of(PageKind::kState),
          .sequences = options.sequences,
          .rows_max = options.rows_max,
          .steps_max = 1,
          .pools_last = model.file.metadata().u64_or(pooling, 0) == kPoolLast};
}

namespace {

// With all layers of the model's range.
std::shared_ptr<StageCache> cache_for(const LoadedModel& model, const PagedLayersOptions& options) {
  check_sources(model.range, model.config.states);
  std::shared_ptr<StageCache> cache = options.stage_cache;
  if (cache == nullptr)
    cache = std::make_shared<StageCache>(
        model::CacheShape{model.config.states, options.kv_type},
        StageCacheOptions{
            .room = cache_room(model, options), .dim = model.config.row_cols(), .keeps_contents = false});
  cache->extend_to(model.range.begin, model.range.end);
  return cache;
}

}  // namespace

PagedLayers::PagedLayers(const LoadedModel& model, Compute& compute, const PagedLayersOptions& options)
    : info_(chain_info(model, options)),
      cache_(cache_for(model, options)),
      runner_(model, compute.size()),
      compute_(compute),
      table_(options.adapters),
      source_(options.page_source),
      sequences_(options.sequences),
      states_seen_(info_.state_pages) {
  BF_CHECK(cache_->room() == cache_room(model, options)) << "the cache has room for another number of pages";
  for (auto& views : page_views_) views.resize(options.sequences);
  if (options.predict && model.predictor != nullptr) {
    block_ = std::make_unique<DraftBlock>(*model.predictor, model.config.dim, model.config.vocab,
                                          DraftBlockOptions{.pages = info_.pages,
                                                            .sequences = options.sequences,
                                                            .kv_type = options.kv_type,
                                                            .rows_max = options.rows_max,
                                                            .threads = compute.size()});
    info_.predicts = true;
  }
}

PagedLayers::~PagedLayers() = default;

size_t PagedLayers::cache_bytes() const { return cache_->bytes() + (block_ ? block_->cache_bytes() : 0); }

void PagedLayers::Placed::clear() {
  for (auto& of_kind : pages) of_kind.clear();
  whole = 0;
  forget_state();
}

void PagedLayers::Placed::forget_state() {
  seen.reset();
  guesses = 0;
}

void PagedLayers::report(std::span<const PageClaim> claims, CacheReport& into) const {
  cache_->report(claims, into);
  CacheReport::Offer offer;
  if (source_ != nullptr && cache_->keeps_contents()) offer = source_->offer(*cache_.operator->(), claims);
  offer.begin = cache_->begin();
  offer.end = cache_->end();
  into.offers.push_back(offer);
}

void PagedLayers::fetch(std::span<const PageClaim> claims, Duration limit) {
  if (source_ != nullptr && cache_->keeps_contents() && !source_done_ && !claims.empty())
    source_->fetch(*cache_.operator->(), claims, limit);
  end_moves();
}

void PagedLayers::cancel_fetch() {
  if (source_ != nullptr) source_->cancel();
}

// Nothing will be asked for any more.
void PagedLayers::end_moves() {
  if (source_ != nullptr && !std::exchange(source_done_, true)) source_->done();
}

void PagedLayers::forget_all() {
  end_moves();
  cache_->forget_all();
  std::ranges::fill(states_seen_, 0u);
  unplace_all();
}

void PagedLayers::unplace_all() {
  for (Placed& placed : sequences_) placed.clear();
  if (block_) block_->forget_all();
  rows_.clear();
}

// The block's page stands behind those of the layers.
size_t PagedLayers::page_size(PageKind kind) const {
  return cache_->memory().page_size(kind) + (block_ ? block_->memory().page_size(kind) : 0);
}

void PagedLayers::read_page(PageKind kind, uint32_t page, std::span<std::byte> into) const {
  const size_t own = cache_->memory().page_size(kind);
  cache_->memory().read_page(kind, page, into.first(own));
  if (into.size() > own) block_->memory().read_page(kind, page, into.subspan(own));
}

void PagedLayers::write_page(PageKind kind, uint32_t page, size_t positions,
                             std::span<const std::byte> from) {
  BF_CHECK(!cache_->keeps_contents()) << "pages of this cache have names";
  const size_t own = cache_->memory().page_size(kind);
  cache_->memory().write_page(kind, page, from.first(own));
  if (from.size() > own) block_->memory().write_page(kind, page, from.subspan(own));
  if (kind == PageKind::kState) states_seen_[page] = static_cast<uint32_t>(positions);
}

Status PagedLayers::apply(const KvCommand& command) {
  if (command.sequence >= sequences_.size())
    return {Errc::kInvalidArgument, fmt::format("sequence {} of {}", command.sequence, sequences_.size())};
  Placed& placed = sequences_[command.sequence];
  switch (command.kind) {
    case KvCommand::Kind::kForget:
      placed.clear();
      if (block_) block_->forget(command.sequence);
      return {};
    case KvCommand::Kind::kPlace: {
      const size_t pages = cache_->room().of(command.pages);
      if (command.page >= pages || command.block >= info_.pages)
        return {Errc::kInvalidArgument,
                fmt::format("block {} in page {} of {}", command.block, command.page, pages)};
      std::vector<uint32_t>& of_kind = placed.pages[static_cast<size_t>(command.pages)];
      if (of_kind.size() <= command.block) of_kind.resize(command.block + 1, kNoPage);
      of_kind[command.block] = command.page;
      const std::vector<uint32_t>& full = placed.of(PageKind::kFull);
      while (placed.whole < full.size() && full[placed.whole] != kNoPage) ++placed.whole;
      return {};
    }
  }
  return {Errc::kInvalidArgument,
          fmt::format("cache command {} does not exist", static_cast<unsigned>(command.kind))};
}

Status PagedLayers::check(std::span<const StepRow> rows, size_t index) {
  const StepRow& row = rows[index];
  const model::ModelConfig& config = model().config;
  if (row.token < 0 || static_cast<size_t>(row.token) >= config.vocab)
    return {Errc::kInvalidArgument,
            fmt::format("token {} is outside the vocabulary of {}", row.token, config.vocab)};
  if (row.sequence >= sequences_.size())
    return {Errc::kInvalidArgument, fmt::format("sequence {} of {}", row.sequence, sequences_.size())};
  if (row.output > RowOutput::kHidden)
    return {Errc::kInvalidArgument,
            fmt::format("output {} does not exist", static_cast<unsigned>(row.output))};
  if (config.positions_max > 0 && row.position >= config.positions_max)
    return {Errc::kInvalidArgument, fmt::format("position {}: the model has learned {} positions",
                                                row.position, config.positions_max)};
  Placed& placed = sequences_[row.sequence];
  // Attention walks all blocks from the first on.
  if (row.position / kKvPage >= placed.whole)
    return {Errc::kInvalidArgument, fmt::format("position {} of sequence {}: {} of its blocks have a page",
                                                row.position, row.sequence, placed.whole)};
  // And those in the window that layers with one have kept.
  const size_t first_seen = first_block_in_window(row.position, info_.window, kKvPage);
  const std::vector<uint32_t>& window = placed.of(PageKind::kWindow);
  for (size_t block = first_seen; info_.window > 0 && block <= row.position / kKvPage; ++block)
    if (block >= window.size() || window[block] == kNoPage)
      return {Errc::kInvalidArgument,
              fmt::format("position {} of sequence {}: block {} of its window has no page", row.position,
                          row.sequence, block)};
  const bool goes_on = index > 0 && rows[index - 1].sequence == row.sequence;
  if (goes_on && rows[index - 1].guess && !row.guess)
    return {Errc::kInvalidArgument,
            fmt::format("row {}: position {} of sequence {} is certain, the one before it a guess", index,
                        row.position, row.sequence)};
  if (goes_on && row.adapter != rows[index - 1].adapter)
    return {Errc::kInvalidArgument, fmt::format("row {}: sequence {} names adapters {} and {}", index,
                                                row.sequence, rows[index - 1].adapter, row.adapter)};
  if (goes_on ? row.position != rows[index - 1].position + 1 : placed.step == prepared_)
    return {Errc::kInvalidArgument, fmt::format("row {}: position {} of sequence {} is out of order", index,
                                                row.position, row.sequence)};
  placed.step = prepared_;
  return {};
}

bool PagedLayers::takes_values(LayerSpan fill) const {
  if (model().has_embedding()) return false;
  const size_t first = model().range.begin;
  return fill.empty() || (fill.begin <= first && first < fill.end);
}

uint32_t PagedLayers::page_of(uint32_t sequence, size_t position) const {
  return sequences_[sequence].of(PageKind::kFull)[position / kKvPage];
}

// Rows without an adapter come without any work, also for those that have one.
Status PagedLayers::name_adapters(std::span<const StepRow> rows) {
  adapters_.clear();
  adapter_layers_.clear();
  row_adapters_.clear();
  if (std::ranges::all_of(rows, [](const StepRow& row) { return row.adapter == 0; })) return {};
  for (const StepRow& row : rows) {
    if (row.adapter == 0) {
      row_adapters_.push_back(graph::kNoAdapter);
      continue;
    }
    auto known =
        std::ranges::find(adapters_, row.adapter, [](const AdapterPtr& held) { return held->number; });
    if (known == adapters_.end()) {
      AdapterPtr adapter = table_ == nullptr ? nullptr : table_->find(row.adapter);
      if (adapter == nullptr)
        return {Errc::kInvalidArgument, fmt::format("adapter {} is not known here", row.adapter)};
      adapter_layers_.push_back(&adapter->layers);
      adapters_.push_back(std::move(adapter));
      known = adapters_.end() - 1;
    }
    row_adapters_.push_back(static_cast<int32_t>(known - adapters_.begin()));
  }
  return {};
}

// Says what the rows are about to write. The layers that they pass must have what is before them.
Status PagedLayers::name_rows(std::span<const StepRow> rows) {
  Lineage lineage = kNoText;
  for (size_t i = 0; i < rows.size(); ++i) {
    const StepRow& row = rows[i];
    if (i == 0 || rows[i - 1].sequence != row.sequence) {
      lineage = kNoText;
      if (row.position > 0) {
        const uint32_t page = page_of(row.sequence, row.position - 1);
        const size_t offset = (row.position - 1) % kKvPage;
        if (!cache_->holds(page, offset + 1, first_layer_, last_layer_))
          return {Errc::kInvalidArgument,
                  fmt::format(
                      "position {} of sequence {}: the one before it, in page {}, is not in layers {} to {}",
                      row.position, row.sequence, page, first_layer_, last_layer_ - 1)};
        lineage = cache_->lineage(page, offset);
        // Layers that keep no positions do not know it.
        if (lineage == kNoText)
          return {Errc::kInvalidArgument,
                  fmt::format("position {} of sequence {}: the one before it, in page {}, is not known here",
                              row.position, row.sequence, page)};
      }
    }
    lineage = lineage_after(row.position == 0 ? lineage_of_adapter(row.adapter) : lineage, row.token);
    cache_->name(page_of(row.sequence, row.position), row.position % kKvPage, lineage);
  }
  return {};
}

Status PagedLayers::prepare_fill(std::span<const StepRow> rows) {
  const model::LayerRange& range = model().range;
  if (fill_.begin >= fill_.end || fill_.end > info_.layers)
    return {Errc::kInvalidArgument,
            fmt::format("rows through layers {} to {} of {}", fill_.begin, fill_.end, info_.layers)};
  fills_ = fill_.end > range.begin && fill_.begin <= range.end;
  if (!fills_) return {};
  first_layer_ = std::clamp<size_t>(fill_.begin, range.begin, range.end);
  last_layer_ = std::clamp<size_t>(fill_.end, range.begin, range.end);
  kept_.clear();
  if (fill_.begin <= range.begin) return {};
  for (const StepRow& row : rows) {
    const float* values =
        cache_->row(fill_.begin, page_of(row.sequence, row.position), row.position % kKvPage);
    if (values == nullptr)
      return {Errc::kInvalidArgument,
              fmt::format("position {} of sequence {}: its row before layer {} is not here", row.position,
                          row.sequence, fill_.begin)};
    kept_.insert(kept_.end(), values, values + info_.row_cols);
  }
  return {};
}

// Whether the layers that the step passes have the state behind the first `seen` positions of the row's text.
bool PagedLayers::has_state(const StepRow& row, size_t seen) const {
  if (seen == 0) return true;
  const size_t last = seen - 1, block = last / kKvPage;
  const std::vector<uint32_t>& pages = sequences_[row.sequence].of(PageKind::kState);
  if (block >= pages.size() || pages[block] == kNoPage) return false;
  if (!cache_->keeps_contents()) return states_seen_[pages[block]] == seen;
  return cache_->holds_state(pages[block], cache_->lineage(page_of(row.sequence, last), last % kKvPage),
                             first_layer_, last_layer_);
}

// Which state the rows of a sequence go on from.
Status PagedLayers::begin_state(const StepRow& row, graph::StateRun& run) {
  Placed& placed = sequences_[row.sequence];
  const std::vector<uint32_t>& pages = placed.of(PageKind::kState);
  // Behind pages that were just placed: at the beginning, or where another text has left a state.
  if (!placed.seen) placed.seen = row.position;
  const size_t seen = *placed.seen;
  const size_t block = seen == 0 ? 0 : (seen - 1) / kKvPage;
  if (!has_state(row, seen) || row.position < seen || row.position > seen + placed.guesses)
    return {
        Errc::kInvalidArgument,
        fmt::format("position {} of sequence {}: there is no state to go on from (the last one has seen {} "
                    "positions, {} guesses are behind it)",
                    row.position, row.sequence, seen, placed.guesses)};
  run = {.sequence = row.sequence,
         .position = row.position,
         .replayed = static_cast<uint32_t>(row.position - seen),
         .from = seen == 0 ? kNoPage : pages[block]};
  return {};
}

// What recurrent layers do with the rows, and where they will stand.
Status PagedLayers::prepare_states(std::span<const StepRow> rows) {
  state_runs_.clear();
  if (first_layer_ == last_layer_) return {};
  if (!fill_.empty()) {
    if (!cache_->keeps_contents())
      return {Errc::kInvalidArgument,
              "the states of recurrent layers have no names here, so none can be filled"};
    // Layers of a fill stand where it begins, wherever the others do.
    for (const StepRow& row : rows) sequences_[row.sequence].forget_state();
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i == 0 || rows[i - 1].sequence != rows[i].sequence) {
      if (Status status = begin_state(rows[i], state_runs_.emplace_back()); !status) return status;
      state_runs_.back().first_row = static_cast<uint32_t>(i);
    }
    ++state_runs_.back().rows;
    state_runs_.back().certain += !rows[i].guess;
  }
  for (const graph::StateRun& run : state_runs_) {
    Placed& placed = sequences_[run.sequence];
    const std::vector<uint32_t>& pages = placed.of(PageKind::kState);
    const size_t end = run.position + run.certain;
    if (run.certain == 0 || run.rows - run.certain > graph::kGuessesMax)
      return {Errc::kInvalidArgument,
              fmt::format("{} rows of sequence {} of which {} are guesses, expected one "
                          "that is none and at most {} that are",
                          run.rows, run.sequence, run.rows - run.certain, graph::kGuessesMax)};
    const size_t last = (end - 1) / kKvPage;
    if (last >= pages.size() || pages[last] == kNoPage)
      return {Errc::kInvalidArgument,
              fmt::format("position {} of sequence {}: its block has no page for the state behind it",
                          end - 1, run.sequence)};
    for (size_t block = run.seen() / kKvPage; block <= last && block < pages.size(); ++block) {
      if (pages[block] == kNoPage) continue;
      const size_t behind = std::min(end, (block + 1) * kKvPage);
      states_seen_[pages[block]] = static_cast<uint32_t>(behind);
      if (cache_->keeps_contents())
        state_writes_.push_back(
            {pages[block], cache_->lineage(page_of(run.sequence, behind - 1), (behind - 1) % kKvPage)});
    }
    placed.seen = end;
    placed.guesses = run.rows - run.certain;
    if (!fill_.empty()) placed.forget_state();
  }
  return {};
}

Status PagedLayers::apply_all(std::span<const KvCommand> commands) {
  end_moves();
  for (const KvCommand& command : commands)
    if (Status status = apply(command); !status) return status;
  return {};
}

Status PagedLayers::prepare(std::span<const KvCommand> commands, std::span<const StepRow> rows,
                            LayerSpan fill) {
  rows_.clear();
  state_writes_.clear();
  if (rows.empty() || rows.size() > info_.rows_max)
    return {Errc::kInvalidArgument,
            fmt::format("a step of {} rows, expected 1 to {}", rows.size(), info_.rows_max)};
  if (Status status = apply_all(commands); !status) return status;
  ++prepared_;
  placed_pages_.clear();
  for (size_t i = 0; i < rows.size(); ++i)
    if (Status status = check(rows, i); !status) return status;
  if (Status status = name_adapters(rows); !status) return status;
  fill_ = fill;
  fills_ = true;
  first_layer_ = model().range.begin;
  last_layer_ = model().range.end;
  if (fill != LayerSpan{}) {
    if (Status status = prepare_fill(rows); !status) return status;
  } else {
    cache_->drop_old_rows();  // fills come before all else
  }
  if (cache_->keeps_contents() && fills_ && first_layer_ < last_layer_)
    if (Status status = name_rows(rows); !status) return status;
  if (info_.state_pages > 0 && fills_)
    if (Status status = prepare_states(rows); !status) return status;
  tokens_.clear();
  selected_.clear();
  candidates_.clear();
  normed_.clear();
  for (const StepRow& row : rows) {
    const auto index = static_cast<int32_t>(rows_.size());
    if (row.output == RowOutput::kLogits) {
      selected_.push_back(index);
      candidates_.push_back(row.candidates);
    }
    if (row.output == RowOutput::kHidden || block_) normed_.push_back(index);
    tokens_.push_back(row.token);
    rows_.push_back({row.sequence, row.position});
  }
  if (block_) step_rows_.assign(rows.begin(), rows.end());
  return {};
}

Result<BatchRunner::Output> PagedLayers::run(std::span<const float> hidden) {
  if (!fills_) return BatchRunner::Output{};
  for (const StateWrite& write : state_writes_) cache_->doubt_state(write.page, first_layer_, last_layer_);
  Result<BatchRunner::Output> output = compute(hidden);
  adapters_.clear();  // whoever has dropped one wants its memory back
  adapter_layers_.clear();
  for (const StateWrite& write : state_writes_)
    if (output) cache_->wrote_state(write.page, write.behind, first_layer_, last_layer_);
  if (cache_->keeps_contents()) {
    for (const graph::KvRow& row : rows_) {
      const uint32_t page = page_of(row.sequence, row.position);
      const size_t offset = row.position % kKvPage;
      if (output) {
        cache_->wrote(page, offset, first_layer_, last_layer_);
      } else {
        cache_->doubt(page, offset, first_layer_, last_layer_);
      }
    }
    if (output) keep_rows(output->hidden);
  }
  if (output && !fill_.empty() && fill_.end <= model().range.end)
    output->hidden = {};  // nobody waits for them
  return output;
}

// What goes to the next stage; should that be lost, another one can begin with it.
void PagedLayers::keep_rows(std::span<const float> hidden) {
  if (hidden.empty() || first_layer_ == last_layer_ || last_layer_ != model().range.end || model().has_head())
    return;
  const auto in_use = [this](uint32_t page) {
    if (placed_pages_.empty()) {
      placed_pages_.resize(info_.pages);
      for (const Placed& placed : sequences_)
        for (const uint32_t held : placed.of(PageKind::kFull))
          if (held != kNoPage) placed_pages_[held] = true;
    }
    return bool{placed_pages_[page]};
  };
  for (size_t i = 0; i < rows_.size(); ++i)
    cache_->keep_row(page_of(rows_[i].sequence, rows_[i].position), rows_[i].position % kKvPage,
                     hidden.subspan(i * info_.row_cols, info_.row_cols), in_use);
}

Result<BatchRunner::Output> PagedLayers::compute(std::span<const float> hidden) {
  const Compute::Turn turn = compute_.take();
  try {
    graph::KvStep kv = cache_->memory().step(page_tables(), rows_, state_runs_);
    kv.adapters = adapter_layers_;
    if (!fill_.empty()) return compute_part(turn.pool(), hidden, kv);
    BatchRunner::Output output = runner_.run(turn.pool(),
                                             {.tokens = tokens_,
                                              .hidden = hidden,
                                              .selected = selected_,
                                              .normed = normed_,
                                              .candidates = candidates_,
                                              .adapters = row_adapters_},
                                             kv);
    if (block_) predict(turn.pool(), output);
    return output;
  } catch (const Error& error) {
    return Status(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return Status(Errc::kOutOfMemory, "no memory for the step's activations");
  }
}

model::PageTables PagedLayers::page_tables() {
  model::PageTables tables;
  for (size_t kind = 0; kind < graph::kPageKinds; ++kind) {
    for (size_t s = 0; s < sequences_.size(); ++s) page_views_[kind][s] = sequences_[s].pages[kind];
    tables[kind] = page_views_[kind];
  }
  return tables;
}

// The block reads all rows; who asked for some gets those.
void PagedLayers::predict(ThreadPool& pool, BatchRunner::Output& output) {
  asked_hidden_.clear();
  for (size_t i = 0; i < step_rows_.size(); ++i)
    if (step_rows_[i].output == RowOutput::kHidden) {
      const std::span<const float> row = output.normed.subspan(i * info_.dim, info_.dim);
      asked_hidden_.insert(asked_hidden_.end(), row.begin(), row.end());
    }
  block_->take(pool, step_rows_, output.normed, page_tables()[static_cast<size_t>(PageKind::kFull)]);
  output.normed = asked_hidden_;
}

Status PagedLayers::check(const DraftAsk& ask) const {
  if (ask.sequence >= sequences_.size())
    return {Errc::kInvalidArgument, fmt::format("sequence {} of {}", ask.sequence, sequences_.size())};
  if (ask.token < 0 || static_cast<size_t>(ask.token) >= info_.vocab)
    return {Errc::kInvalidArgument,
            fmt::format("token {} is outside the vocabulary of {}", ask.token, info_.vocab)};
  const size_t whole = sequences_[ask.sequence].whole * kKvPage;
  if (ask.count > whole || ask.position > whole - ask.count)
    return {Errc::kInvalidArgument,
            fmt::format("{} tokens from position {} of sequence {}: {} of its positions have a page",
                        ask.count, ask.position, ask.sequence, whole)};
  return {};
}

Result<std::vector<std::vector<int32_t>>> PagedLayers::draft(const DraftRequest& request) {
  if (!block_) return Status(Errc::kUnsupported, "no block that predicts was loaded");
  for (const KvCommand& command : request.commands)
    if (Status status = apply(command); !status) return status;
  for (size_t i = 0; i < request.asks.size(); ++i) {
    const DraftAsk& ask = request.asks[i];
    if (Status status = check(ask); !status) return status;
    for (size_t before = 0; before < i; ++before)
      if (request.asks[before].sequence == ask.sequence)
        return Status(Errc::kInvalidArgument, fmt::format("sequence {} is asked for twice", ask.sequence));
  }
  const Compute::Turn turn = compute_.take();
  try {
    return block_->draft(turn.pool(), request.asks, page_tables()[static_cast<size_t>(PageKind::kFull)]);
  } catch (const Error& error) {
    return Status(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return Status(Errc::kOutOfMemory, "no memory for the activations of a draft");
  }
}

BatchRunner::Output PagedLayers::compute_part(ThreadPool& pool, std::span<const float> hidden,
                                              const graph::KvStep& kv) {
  const bool embeds = model().has_embedding() && fill_.begin == 0;
  const std::span<const float> values =
      fill_.begin > model().range.begin ? std::span<const float>(kept_) : hidden;
  if (first_layer_ == last_layer_ && !embeds) return {.hidden = values, .logits = {}, .normed = {}};
  const model::LayerRange part{first_layer_, last_layer_, !embeds, true};
  const auto rows = runner_.run_part(pool, part,
                                     {.tokens = tokens_,
                                      .hidden = values,
                                      .selected = {},
                                      .normed = {},
                                      .candidates = {},
                                      .adapters = row_adapters_},
                                     kv);
  return {.hidden = rows, .logits = {}, .normed = {}};
}

void PagedLayers::for_each(size_t count, FunctionRef<void(size_t)> fn) {
  // Alone for one, for which no thread need wake up, and while somebody else's step is computed.
  const std::optional<Compute::Turn> turn = count > 1 ? compute_.try_take() : std::nullopt;
  if (!turn) {
    for (size_t i = 0; i < count; ++i) fn(i);
    return;
  }
  std::atomic<size_t> next = 0;
  turn->pool().run([&](size_t) {
    for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) fn(i);
  });
}

}  // namespace butterfly::runtime
