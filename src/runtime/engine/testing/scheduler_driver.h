// Runs a scheduler on a fake chain in one thread, choosing greedily. For tests.
#pragma once
#include <algorithm>
#include <map>
#include <optional>

#include "runtime/engine/scheduler.h"
#include "runtime/engine/testing/fake_chain.h"

namespace butterfly::runtime::testing {

inline int32_t greedy_choice(std::span<const float> logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

// What a text must become, computed without pages, batches or guesses.
inline std::vector<int32_t> greedy_text(const FakeChainOptions& chain, std::vector<int32_t> prompt,
                                        size_t count) {
  std::vector<int32_t> generated;
  for (size_t i = 0; i < count; ++i) {
    generated.push_back(greedy_choice(FakeChain::logits_after(chain, prompt)));
    prompt.push_back(generated.back());
  }
  return generated;
}

// Scheduler and chain together, step by step, in the thread of the test.
class SchedulerDriver {
 public:
  SchedulerDriver(const FakeChainOptions& on, const SchedulerOptions& options)
      : chain_options(on), chain(on), scheduler(chain.info(), options) {}

  Status submit(uint64_t id, std::vector<int32_t> prompt, size_t tokens_max, uint64_t client = 0,
                bool background = false) {
    Submission submission;
    submission.id = RequestId{id};
    submission.prompt = std::move(prompt);
    submission.tokens_max = tokens_max;
    submission.client = client;
    submission.background = background;
    Status status = scheduler.submit(submission);
    if (status) limits[submission.id] = tokens_max;
    return status;
  }

  // Begins one step; false: there was nothing to begin.
  bool begin() {
    if (const auto asked = scheduler.predictions()) {
      const auto drafts = chain.draft(*asked);
      scheduler.predicted(*asked, *drafts, prediction * static_cast<int64_t>(asked->asks[0].count));
    }
    auto plan = scheduler.plan();
    if (!plan) return false;
    chain.submit(plan->request).or_throw();
    plans.push_back(std::move(*plan));
    return true;
  }
  // Ends the oldest step. Time of a step: `base` and so much for each row.
  void end() {
    const StepPlan plan = std::move(plans.front());
    plans.erase(plans.begin());
    const StepResult result = chain.receive(Duration(0));
    std::vector<PartOutcome> outcomes;
    size_t row = 0;
    for (const StepPart& part : plan.parts) {
      PartOutcome& outcome = outcomes.emplace_back();
      outcome.id = part.id;
      const auto& text = texts[part.id];
      const bool chooses = part.chooses && !scheduler.is_void(part.id);
      for (size_t i = 0; chooses && i <= part.draft.size() && i < choices_max && !outcome.finished; ++i) {
        outcome.tokens.push_back(
            greedy_choice(result.logits.subspan((row + i) * chain_options.vocab, chain_options.vocab)));
        outcome.finished = text.size() + outcome.tokens.size() == limits[part.id];
        if (i < part.draft.size() && outcome.tokens.back() != part.draft[i]) break;
      }
      row += part.logit_rows;
    }
    for (const PartOutcome& outcome : outcomes)
      if (scheduler.knows(outcome.id)) {
        auto& text = texts[outcome.id];
        text.insert(text.end(), outcome.tokens.begin(), outcome.tokens.end());
        if (outcome.finished) finished.push_back(outcome.id);
      }
    last_time = passed.value_or(base + per_row * static_cast<int64_t>(plan.request.rows.size()));
    scheduler.complete(plan.request.step, last_time, outcomes);
    last = plan;
  }
  bool step() {
    if (!begin() && plans.empty()) return false;
    end();
    return true;
  }
  // The same with as many steps under way as the chain takes.
  size_t run_full(size_t steps_max = 100000) {
    size_t steps = 0;
    for (; steps < steps_max; ++steps) {
      while (begin()) continue;
      if (plans.empty()) break;
      end();
    }
    return steps;
  }
  // Steps until nothing is left; the number of steps.
  size_t run(size_t steps_max = 100000) {
    size_t steps = 0;
    while (steps < steps_max && step()) ++steps;
    return steps;
  }
  void reset() {
    chain.reset(scheduler.reset(), Duration(0)).or_throw();
    plans.clear();
  }

  FakeChainOptions chain_options;
  FakeChain chain;
  Scheduler scheduler;
  std::vector<StepPlan> plans;    // under way
  size_t choices_max = SIZE_MAX;  // of one part: masks of the guesses behind take too long
  StepPlan last;
  Duration last_time{};
  std::optional<Duration> passed;  // what a step has taken; of itself if not set: `base` and `per_row`
  std::map<RequestId, size_t> limits;
  std::map<RequestId, std::vector<int32_t>> texts;
  std::vector<RequestId> finished;
  Duration prediction = std::chrono::milliseconds(1);  // of one token
  Duration base = std::chrono::milliseconds(10), per_row = std::chrono::milliseconds(1);
};

}  // namespace butterfly::runtime::testing
