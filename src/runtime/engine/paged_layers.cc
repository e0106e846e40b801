#include "runtime/engine/paged_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <optional>

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
          .context = config.positions_max == 0 ? context : std::min(context, config.positions_max),
          .pages = pages_of(model, options),
          .page_positions = kernels::kKvPage,
          .sequences = options.sequences,
          .rows_max = options.rows_max,
          .steps_max = 1,
          .pools_last = model.file.metadata().u64_or(pooling, 0) == kPoolLast};
}

PagedLayers::PagedLayers(const LoadedModel& model, Compute& compute, const PagedLayersOptions& options)
    : info_(chain_info(model, options)),
      memory_(kv_shape(model, options.kv_type), info_.pages),
      runner_(model, compute.size()),
      compute_(compute),
      sequences_(options.sequences),
      page_views_(options.sequences) {}

void PagedLayers::forget_all() {
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

Status PagedLayers::prepare(std::span<const KvCommand> commands, std::span<const StepRow> rows) {
  rows_.clear();
  if (rows.empty() || rows.size() > info_.rows_max)
    return {Errc::kInvalidArgument,
            fmt::format("a step of {} rows, expected 1 to {}", rows.size(), info_.rows_max)};
  for (const KvCommand& command : commands)
    if (Status status = apply(command); !status) return status;
  ++prepared_;
  for (size_t i = 0; i < rows.size(); ++i)
    if (Status status = check(rows, i); !status) return status;
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
  const Compute::Turn turn = compute_.take();
  try {
    for (size_t s = 0; s < sequences_.size(); ++s) page_views_[s] = sequences_[s].pages;
    return runner_.run(turn.pool(),
                       {.tokens = tokens_, .hidden = hidden, .selected = selected_, .normed = normed_},
                       memory_.step(page_views_, rows_));
  } catch (const Error& error) {
    return Status(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return Status(Errc::kOutOfMemory, "no memory for the step's activations");
  }
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
