// A chain without a model, for tests: logits are a hash of the tokens it finds in its pages, so a page in the
// wrong place shows as a wrong token.
#pragma once
#include <algorithm>
#include <deque>
#include <functional>
#include <thread>

#include "base/check.h"
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
  size_t window_pages = 0, window = 0;  // some layers see a window
  size_t state_pages = 0;               // some layers have a recurrent state
  bool predicts = false;                // guesses are right, but for
  size_t wrong_every =
      SIZE_MAX;        // every so many-th position, where the token behind the right one is guessed
  bool loops = false;  // the likeliest next token depends on the last one only, so greedy text repeats itself
  std::function<Status(uint64_t step)> fault = {};  // called for each step received; an error loses it
  std::function<Status(const StepRequest& step)> poison = {};        // the same, by what is in the step
  std::function<Status(uint64_t epoch)> reset_fault = {};            // an error: the chain cannot be reset
  std::function<Status(const StepRequest& step)> submit_fault = {};  // an error: the step does not go out
  // Called by resume(). Then it says that of two layers the first has lost what was claimed, so that pages
  // are filled again. Without: nothing is ever left.
  std::function<void()> on_resume = {};
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
              .window_pages = options.window_pages,
              .window = options.window,
              .state_pages = options.state_pages,
              .sequences = options.sequences,
              .rows_max = options.rows_max,
              .steps_max = options.steps_max,
              .pools_last = false,
              .predicts = options.predicts},
        cells_(options.pages * options.page_positions, -1),
        pages_(options.sequences),
        window_cells_(options.window_pages * options.page_positions, -1),
        states_(options.state_pages),
        seen_(options.sequences) {}

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
    if (options_.submit_fault)
      if (Status status = options_.submit_fault(request); !status) return status;
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
  Result<std::vector<std::vector<int32_t>>> draft(const DraftRequest& request) override {
    BF_CHECK(request.epoch == epoch_ && steps_.empty() && options_.predicts) << "not now";
    apply(request.commands);
    std::vector<std::vector<int32_t>> drafts;
    for (const DraftAsk& ask : request.asks) {
      std::vector<int32_t> text;
      for (uint32_t p = 0; p < ask.position; ++p) text.push_back(cell(ask.sequence, p));
      cell(ask.sequence, ask.position + ask.count - 1);  // has a page
      text.push_back(ask.token);
      for (drafts.emplace_back(); drafts.back().size() < ask.count; text.push_back(drafts.back().back())) {
        const auto logits = logits_after(options_, text);
        auto likeliest = static_cast<size_t>(std::ranges::max_element(logits) - logits.begin());
        if (text.size() % options_.wrong_every == 0) likeliest = (likeliest + 1) % options_.vocab;
        drafts.back().push_back(static_cast<int32_t>(likeliest));
      }
    }
    return drafts;
  }
  Status reset(uint64_t epoch, Duration) override {
    if (options_.reset_fault)
      if (Status status = options_.reset_fault(epoch); !status) return status;
    epoch_ = epoch;
    steps_.clear();
    std::fill(cells_.begin(), cells_.end(), -1);
    for (auto& pages : pages_) pages = {};
    std::fill(window_cells_.begin(), window_cells_.end(), -1);
    for (auto& state : states_) state.clear();
    for (auto& seen : seen_) seen.reset();
    return {};
  }
  Result<std::optional<CacheReport>> resume(uint64_t epoch, std::span<const PageClaim> claims,
                                            Duration timeout) override {
    if (!options_.on_resume) return Chain::resume(epoch, claims, timeout);
    options_.on_resume();
    epoch_ = epoch;
    steps_.clear();
    CacheReport report{.claims = claims.size(), .layers = {{}, {}}, .rows = {}};
    for (const PageClaim& claim : claims) {
      report.layers[0].push_back(0);
      report.layers[1].push_back(static_cast<uint8_t>(claim.count));
    }
    return std::optional(std::move(report));
  }
  void for_each(size_t count, FunctionRef<void(size_t)> fn) override { for_each_in_turn(count, fn); }
  void close() override {}

 private:
  void apply(std::span<const KvCommand> commands) {
    for (const KvCommand& command : commands) {
      if (command.kind == KvCommand::Kind::kForget) {
        pages_.at(command.sequence) = {};
        seen_.at(command.sequence).reset();
        continue;
      }
      auto& pages = pages_.at(command.sequence).at(static_cast<size_t>(command.pages));
      if (pages.size() <= command.block) pages.resize(command.block + 1, UINT32_MAX);
      pages[command.block] = command.page;
    }
  }
  void compute(const StepRequest& step) {
    apply(step.commands);
    for (const StepRow& row : step.rows) {
      cell(row.sequence, row.position) = row.token;
      if (info_.window > 0) window_cell(row.sequence, row.position) = row.token;
    }
    if (info_.window > 0)
      for (const StepRow& row : step.rows) check_window(row);
    if (info_.state_pages > 0) run_states(step);
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
  uint32_t page(uint32_t sequence, graph::PageKind kind, size_t position) const {
    return pages_.at(sequence).at(static_cast<size_t>(kind)).at(position / info_.page_positions);
  }
  int32_t& cell(uint32_t sequence, size_t position) {
    return cells_.at(size_t{page(sequence, graph::PageKind::kFull, position)} * info_.page_positions +
                     position % info_.page_positions);
  }
  int32_t& window_cell(uint32_t sequence, size_t position) {
    return window_cells_.at(size_t{page(sequence, graph::PageKind::kWindow, position)} *
                                info_.page_positions +
                            position % info_.page_positions);
  }
  void check_window(const StepRow& row) {
    const size_t from = row.position + 1 > info_.window ? row.position + 1 - info_.window : 0;
    for (size_t i = from; i <= row.position; ++i)
      BF_CHECK(window_cell(row.sequence, i) == cell(row.sequence, i))
          << "position " << row.position << " does not see " << i << " in its window";
  }
  // A state is the list of tokens it has seen: it must be the text so far, wherever it comes from.
  void run_states(const StepRequest& step) {
    for (size_t i = 0; i < step.rows.size();) {
      const StepRow& first = step.rows[i];
      auto& seen = seen_.at(first.sequence);
      if (!seen) seen = first.position;
      std::vector<int32_t> state;
      if (*seen > 0) state = states_.at(page(first.sequence, graph::PageKind::kState, *seen - 1));
      BF_CHECK(state.size() == *seen && first.position >= *seen &&
               first.position <= *seen + graph::kGuessesMax)
          << "position " << first.position << ": the state has seen " << state.size() << " of " << *seen;
      while (state.size() < first.position) state.push_back(cell(first.sequence, state.size()));
      for (; i < step.rows.size() && step.rows[i].sequence == first.sequence; ++i) {
        if (step.rows[i].guess) continue;
        state.push_back(step.rows[i].token);
        const auto& pages = pages_.at(first.sequence).at(static_cast<size_t>(graph::PageKind::kState));
        const size_t block = (state.size() - 1) / info_.page_positions;
        if (block < pages.size() && pages[block] != graph::kNoPage) states_.at(pages[block]) = state;
      }
      seen = state.size();
      for (size_t k = 0; k < state.size(); ++k)
        BF_CHECK(state[k] == cell(first.sequence, k)) << "the state has seen another text";
    }
  }

  FakeChainOptions options_;
  ChainInfo info_;
  uint64_t epoch_ = 1;
  std::vector<int32_t> cells_;
  std::vector<std::array<std::vector<uint32_t>, graph::kPageKinds>> pages_;  // by sequence, by kind
  std::vector<int32_t> window_cells_;
  std::vector<std::vector<int32_t>> states_;
  std::vector<std::optional<size_t>> seen_;  // by sequence: positions in its state
  std::deque<StepRequest> steps_;
  std::vector<float> logits_, hidden_;
};

}  // namespace butterfly::runtime::testing
