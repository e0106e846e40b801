#include "runtime/engine/paged_stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/checked.h"
#include "runtime/stage.h"

namespace butterfly::runtime {
namespace {

constexpr uint32_t kNoPage = UINT32_MAX;
constexpr uint64_t kPoolLast = 3;  // llama.cpp's number for "the last token's" in <architecture>.pooling_type

size_t pages_of(const LoadedModel& model, const PagedStageOptions& options) {
  return ceil_div(options.positions == 0 ? model.config.context : options.positions, kernels::kKvPage);
}

StageInfo info_of(const LoadedModel& model, const PagedStageOptions& options) {
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

}  // namespace

PagedStage::PagedStage(const LoadedModel& model, ThreadPool& pool, const PagedStageOptions& options)
    : info_(info_of(model, options)),
      memory_(kv_shape(model, options.kv_type), info_.pages),
      runner_(model, pool),
      turn_(options.turn),
      pages_(options.sequences),
      page_views_(options.sequences) {}

Status PagedStage::apply(const KvCommand& command) {
  if (command.sequence >= pages_.size())
    return {Errc::kInvalidArgument, fmt::format("sequence {} of {}", command.sequence, pages_.size())};
  auto& pages = pages_[command.sequence];
  switch (command.kind) {
    case KvCommand::Kind::kForget:
      pages.clear();
      return {};
    case KvCommand::Kind::kPlace:
      if (command.page >= info_.pages || command.block >= info_.pages)
        return {Errc::kInvalidArgument,
                fmt::format("block {} in page {} of {}", command.block, command.page, info_.pages)};
      if (pages.size() <= command.block) pages.resize(command.block + 1, kNoPage);
      pages[command.block] = command.page;
      return {};
  }
  return {Errc::kInvalidArgument, "an unknown cache command"};
}

Status PagedStage::check(const StepRow& row) const {
  if (row.sequence >= pages_.size())
    return {Errc::kInvalidArgument, fmt::format("sequence {} of {}", row.sequence, pages_.size())};
  const auto& pages = pages_[row.sequence];
  const size_t block = row.position / kernels::kKvPage;
  if (block >= pages.size() || pages[block] == kNoPage)
    return {Errc::kInvalidArgument,
            fmt::format("position {} of sequence {} has no page", row.position, row.sequence)};
  return {};
}

Status PagedStage::submit(const StepRequest& request) {
  BF_CHECK(!under_way_) << "one step at a time";
  if (request.epoch != epoch_)
    return {Errc::kInvalidArgument, fmt::format("epoch {}, expected {}", request.epoch, epoch_)};
  if (request.rows.empty() || request.rows.size() > info_.rows_max)
    return {Errc::kInvalidArgument,
            fmt::format("a step of {} rows, expected 1 to {}", request.rows.size(), info_.rows_max)};
  for (const KvCommand& command : request.commands)
    if (Status status = apply(command); !status) return status;
  tokens_.clear();
  selected_.clear();
  normed_.clear();
  rows_.clear();
  for (const StepRow& row : request.rows) {
    if (Status status = check(row); !status) return status;
    const auto index = static_cast<int32_t>(rows_.size());
    if (row.output == RowOutput::kLogits) selected_.push_back(index);
    if (row.output == RowOutput::kHidden) normed_.push_back(index);
    tokens_.push_back(row.token);
    rows_.push_back({row.sequence, row.position});
  }
  under_way_ = true;
  step_ = request.step;
  return {};
}

StepResult PagedStage::receive(Duration) {
  StepResult result;
  result.epoch = epoch_;
  result.step = step_;
  if (!under_way_) {
    result.status = {Errc::kTimeout, "no step is under way"};
    return result;
  }
  under_way_ = false;
  std::unique_lock<std::mutex> turn;
  if (turn_ != nullptr) turn = std::unique_lock(*turn_);
  try {
    for (size_t i = 0; i < rows_.size(); ++i) runner_.check(tokens_[i], rows_[i].position);
    for (size_t s = 0; s < pages_.size(); ++s) page_views_[s] = pages_[s];
    const BatchRunner::Output output =
        runner_.run(tokens_, selected_, normed_, memory_.step(page_views_, rows_));
    result.logits = output.logits;
    result.hidden = output.normed;
  } catch (const Error& error) {
    result.status = {error.code(), error.what()};
  } catch (const std::bad_alloc&) {
    result.status = {Errc::kOutOfMemory, "no memory for the step's activations"};
  }
  return result;
}

Status PagedStage::reset(uint64_t epoch, Duration) {
  epoch_ = epoch;
  under_way_ = false;
  for (auto& pages : pages_) pages.clear();
  return {};
}

}  // namespace butterfly::runtime
