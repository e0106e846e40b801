// A chain without a model, for tests: logits are a hash of the tokens it finds in its pages, so a page in the
// wrong place shows as a wrong token.
#pragma once
#include <deque>
#include <functional>
#include <thread>

#include "base/rng.h"
#include "runtime/engine/chain.h"

namespace butterfly::runtime::testing {

struct FakeChainOptions {
  size_t vocab = 64;
  size_t dim = 3;
  size_t context = 4096;
  size_t pages = 64;
  size_t page_positions = 4;
  size_t sequences = 64;
  size_t rows_max = 64;
  size_t steps_max = 1;
  bool loops = false;  // the likeliest next token depends on the last one only, so greedy text repeats itself
  std::function<Status(uint64_t step)> fault = {};  // called for each step received; an error loses it
  std::function<Status(const StepRequest& step)> poison = {};  // the same, by what is in the step
  std::function<Status(uint64_t epoch)> reset_fault = {};      // an error: the chain cannot be reset
  std::chrono::microseconds step_time{0};
};

// Of one thread, as every chain. BF_CHECKs what a real one would refuse.
class FakeChain final : public Chain {
 public:
  explicit FakeChain(const FakeChainOptions& options)
      : options_(options),
        info_{.vocab = options.vocab,
              .dim = options.dim,
              .context = options.context,
              .pages = options.pages,
              .page_positions = options.page_positions,
              .sequences = options.sequences,
              .rows_max = options.rows_max,
              .steps_max = options.steps_max,
              .pools_last = false},
        cells_(options.pages * options.page_positions, -1),
        pages_(options.sequences) {}

  // Row of logits after these tokens.
  static std::vector<float> logits_after(const FakeChainOptions& options, std::span<const int32_t> tokens) {
    uint64_t hash = 1;
    for (const int32_t token : tokens) hash = random_u64(hash, 5, static_cast<uint32_t>(token));
    std::vector<float> logits(options.vocab);
    for (size_t i = 0; i < logits.size(); ++i) logits[i] = 4 * random_uniform(hash, 6, i);
    if (options.loops) logits[static_cast<size_t>(tokens.back() * 5 + 3) % 16] += 10;
    return logits;
  }

  const ChainInfo& info() const override { return info_; }
  Status submit(const StepRequest& request) override {
    if (request.epoch != epoch_) return {Errc::kPeerLost, "another epoch"};
    steps_.push_back(request);
    return steps_.size() <= options_.steps_max ? Status() : Status(Errc::kInvalidArgument, "too many steps");
  }
  StepResult receive(Duration) override {
    const StepRequest step = steps_.front();
    steps_.pop_front();
    StepResult result;
    result.epoch = step.epoch;
    result.step = step.step;
    if (options_.step_time.count() > 0) std::this_thread::sleep_for(options_.step_time);
    if (options_.fault) result.status = options_.fault(step.step);
    if (options_.poison && result.status) result.status = options_.poison(step);
    if (!result.status) return result;
    logits_.clear();
    hidden_.clear();
    compute(step);
    result.logits = logits_;
    result.hidden = hidden_;
    return result;
  }
  Status reset(uint64_t epoch, Duration) override {
    if (options_.reset_fault)
      if (Status status = options_.reset_fault(epoch); !status) return status;
    epoch_ = epoch;
    steps_.clear();
    std::fill(cells_.begin(), cells_.end(), -1);
    for (auto& pages : pages_) pages.clear();
    return {};
  }
  void for_each(size_t count, FunctionRef<void(size_t)> fn) override { for_each_in_turn(count, fn); }
  void close() override {}

 private:
  void compute(const StepRequest& step) {
    for (const KvCommand& command : step.commands) {
      auto& pages = pages_.at(command.sequence);
      if (command.kind == KvCommand::Kind::kForget) {
        pages.clear();
        continue;
      }
      if (pages.size() <= command.block) pages.resize(command.block + 1, UINT32_MAX);
      pages[command.block] = command.page;
    }
    for (const StepRow& row : step.rows) cell(row.sequence, row.position) = row.token;
    for (const StepRow& row : step.rows) {
      if (row.output == RowOutput::kNone) continue;
      std::vector<int32_t> tokens;
      for (size_t i = 0; i <= row.position; ++i) tokens.push_back(cell(row.sequence, i));
      if (row.output == RowOutput::kLogits) {
        const auto logits = logits_after(options_, tokens);
        logits_.insert(logits_.end(), logits.begin(), logits.end());
      } else {
        for (size_t i = 0; i < options_.dim; ++i)
          hidden_.push_back(
              static_cast<float>((tokens.back() + 1) * static_cast<int32_t>(i + tokens.size())));
      }
    }
  }
  int32_t& cell(uint32_t sequence, size_t position) {
    return cells_.at(size_t{pages_.at(sequence).at(position / info_.page_positions)} * info_.page_positions +
                     position % info_.page_positions);
  }

  FakeChainOptions options_;
  ChainInfo info_;
  uint64_t epoch_ = 1;
  std::vector<int32_t> cells_;
  std::vector<std::vector<uint32_t>> pages_;
  std::deque<StepRequest> steps_;
  std::vector<float> logits_, hidden_;
};

}  // namespace butterfly::runtime::testing
