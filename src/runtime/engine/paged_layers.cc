#include "runtime/engine/paged_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <optional>

#include "base/check.h"
#include "base/checked.h"
#include "runtime/layers/cached_layers.h"

namespace butterfly::runtime {
namespace {

constexpr uint32_t kNoPage = UINT32_MAX;
constexpr uint64_t kPoolLast = 3;  // llama.cpp's number for "the last token's" in <architecture>.pooling_type

size_t pages_of(const LoadedModel& model, const PagedLayersOptions& options) {
  return ceil_div(options.positions == 0 ? model.config.context : options.positions, kernels::kKvPage);
}

}  // namespace

ChainInfo chain_info(const LoadedModel& model, const PagedLayersOptions& options) {
  const model::ModelConfig& config = model.config;
  const size_t context = std::max(config.context, config.run_context);
  const std::string pooling = config.architecture + ".pooling_type";
  return {.vocab = config.vocab,
          .dim = config.dim,
          .layers = config.layers,
          .context = config.positions_max == 0 ? context : std::min(context, config.positions_max),
          .pages = pages_of(model, options),
          .page_positions = kernels::kKvPage,
          .sequences = options.sequences,
          .rows_max = options.rows_max,
          .steps_max = 1,
          .pools_last = model.file.metadata().u64_or(pooling, 0) == kPoolLast};
}

namespace {

// With all layers of the model's range.
std::shared_ptr<StageCache> cache_for(const LoadedModel& model, const PagedLayersOptions& options,
                                      size_t pages) {
  std::shared_ptr<StageCache> cache = options.stage_cache;
  if (cache == nullptr)
    cache = std::make_shared<StageCache>(
        kv_shape(model, options.kv_type),
        StageCacheOptions{.pages = pages, .dim = model.config.dim, .keeps_contents = false});
  cache->extend_to(model.range.begin, model.range.end);
  return cache;
}

}  // namespace

PagedLayers::PagedLayers(const LoadedModel& model, Compute& compute, const PagedLayersOptions& options)
    : info_(chain_info(model, options)),
      cache_(cache_for(model, options, info_.pages)),
      runner_(model, compute.size()),
      compute_(compute),
      sequences_(options.sequences),
      page_views_(options.sequences) {
  BF_CHECK(cache_->pages() == info_.pages)
      << "a cache of " << cache_->pages() << " pages for " << info_.pages;
}

void PagedLayers::forget_all() {
  cache_->forget_all();
  unplace_all();
}

void PagedLayers::unplace_all() {
  for (Placed& placed : sequences_) {
    placed.pages.clear();
    placed.whole = 0;
  }
  rows_.clear();
}

Status PagedLayers::apply(const KvCommand& command) {
  if (command.sequence >= sequences_.size())
    return {Errc::kInvalidArgument, fmt::format("sequence {} of {}", command.sequence, sequences_.size())};
  Placed& placed = sequences_[command.sequence];
  switch (command.kind) {
    case KvCommand::Kind::kForget:
      placed.pages.clear();
      placed.whole = 0;
      return {};
    case KvCommand::Kind::kPlace:
      if (command.page >= info_.pages || command.block >= info_.pages)
        return {Errc::kInvalidArgument,
                fmt::format("block {} in page {} of {}", command.block, command.page, info_.pages)};
      if (placed.pages.size() <= command.block) placed.pages.resize(command.block + 1, kNoPage);
      placed.pages[command.block] = command.page;
      while (placed.whole < placed.pages.size() && placed.pages[placed.whole] != kNoPage) ++placed.whole;
      return {};
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
  if (row.position / kernels::kKvPage >= placed.whole)
    return {Errc::kInvalidArgument, fmt::format("position {} of sequence {}: {} of its blocks have a page",
                                                row.position, row.sequence, placed.whole)};
  const bool goes_on = index > 0 && rows[index - 1].sequence == row.sequence;
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
  return sequences_[sequence].pages[position / kernels::kKvPage];
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
        const size_t offset = (row.position - 1) % kernels::kKvPage;
        if (!cache_->holds(page, offset + 1, first_layer_, last_layer_))
          return {Errc::kInvalidArgument,
                  fmt::format(
                      "position {} of sequence {}: the one before it, in page {}, is not in layers {} to {}",
                      row.position, row.sequence, page, first_layer_, last_layer_ - 1)};
        lineage = cache_->lineage(page, offset);
      }
    }
    lineage = lineage_after(lineage, row.token);
    cache_->name(page_of(row.sequence, row.position), row.position % kernels::kKvPage, lineage);
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
        cache_->row(fill_.begin, page_of(row.sequence, row.position), row.position % kernels::kKvPage);
    if (values == nullptr)
      return {Errc::kInvalidArgument,
              fmt::format("position {} of sequence {}: its row before layer {} is not here", row.position,
                          row.sequence, fill_.begin)};
    kept_.insert(kept_.end(), values, values + info_.dim);
  }
  return {};
}

Status PagedLayers::prepare(std::span<const KvCommand> commands, std::span<const StepRow> rows,
                            LayerSpan fill) {
  rows_.clear();
  if (rows.empty() || rows.size() > info_.rows_max)
    return {Errc::kInvalidArgument,
            fmt::format("a step of {} rows, expected 1 to {}", rows.size(), info_.rows_max)};
  for (const KvCommand& command : commands)
    if (Status status = apply(command); !status) return status;
  ++prepared_;
  placed_pages_.clear();
  for (size_t i = 0; i < rows.size(); ++i)
    if (Status status = check(rows, i); !status) return status;
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
  tokens_.clear();
  selected_.clear();
  normed_.clear();
  for (const StepRow& row : rows) {
    const auto index = static_cast<int32_t>(rows_.size());
    if (row.output == RowOutput::kLogits) selected_.push_back(index);
    if (row.output == RowOutput::kHidden) normed_.push_back(index);
    tokens_.push_back(row.token);
    rows_.push_back({row.sequence, row.position});
  }
  return {};
}

Result<BatchRunner::Output> PagedLayers::run(std::span<const float> hidden) {
  if (!fills_) return BatchRunner::Output{};
  Result<BatchRunner::Output> output = compute(hidden);
  if (cache_->keeps_contents()) {
    for (const graph::KvRow& row : rows_) {
      const uint32_t page = page_of(row.sequence, row.position);
      const size_t offset = row.position % kernels::kKvPage;
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
        for (const uint32_t held : placed.pages)
          if (held != kNoPage) placed_pages_[held] = true;
    }
    return bool{placed_pages_[page]};
  };
  for (size_t i = 0; i < rows_.size(); ++i)
    cache_->keep_row(page_of(rows_[i].sequence, rows_[i].position), rows_[i].position % kernels::kKvPage,
                     hidden.subspan(i * info_.dim, info_.dim), in_use);
}

Result<BatchRunner::Output> PagedLayers::compute(std::span<const float> hidden) {
  const Compute::Turn turn = compute_.take();
  try {
    for (size_t s = 0; s < sequences_.size(); ++s) page_views_[s] = sequences_[s].pages;
    const graph::KvStep kv = cache_->memory().step(page_views_, rows_);
    if (!fill_.empty()) return compute_part(turn.pool(), hidden, kv);
    return runner_.run(turn.pool(),
                       {.tokens = tokens_, .hidden = hidden, .selected = selected_, .normed = normed_}, kv);
  } catch (const Error& error) {
    return Status(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return Status(Errc::kOutOfMemory, "no memory for the step's activations");
  }
}

BatchRunner::Output PagedLayers::compute_part(ThreadPool& pool, std::span<const float> hidden,
                                              const graph::KvStep& kv) {
  const bool embeds = model().has_embedding() && fill_.begin == 0;
  const std::span<const float> values =
      fill_.begin > model().range.begin ? std::span<const float>(kept_) : hidden;
  if (first_layer_ == last_layer_ && !embeds) return {.hidden = values, .logits = {}, .normed = {}};
  const model::LayerRange part{first_layer_, last_layer_, !embeds, true};
  const auto rows =
      runner_.run_part(pool, part, {.tokens = tokens_, .hidden = values, .selected = {}, .normed = {}}, kv);
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
