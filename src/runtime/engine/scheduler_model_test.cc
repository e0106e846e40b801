// Any order of events: the books balance, every text is what it would be alone, nobody starves.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "runtime/engine/testing/scheduler_driver.h"

namespace butterfly::runtime {
namespace {

using testing::FakeChainOptions;
using testing::greedy_text;
using testing::SchedulerDriver;

struct Case {
  FakeChainOptions chain;
  SchedulerOptions options;
};

Case any_case() {
  Case c;
  c.chain.pages = *rc::gen::inRange<size_t>(4, 24);
  c.chain.page_positions = *rc::gen::inRange<size_t>(1, 6);
  c.chain.rows_max = *rc::gen::inRange<size_t>(4, 40);
  c.chain.steps_max = *rc::gen::inRange<size_t>(1, 4);
  c.chain.sequences = *rc::gen::inRange<size_t>(1, 8);
  c.chain.loops = *rc::gen::arbitrary<bool>();
  c.chain.vocab = 16;
  if (*rc::gen::arbitrary<bool>()) {  // as cache_room() would give, or as little as goes
    c.chain.window = *rc::gen::inRange<size_t>(1, 20);
    c.chain.window_pages = (c.chain.window + c.chain.page_positions - 1) / c.chain.page_positions + 2 +
                           *rc::gen::inRange<size_t>(0, 30);
  }
  if (*rc::gen::arbitrary<bool>())
    c.chain.state_pages = 3 * c.chain.sequences + *rc::gen::inRange<size_t>(0, 10);
  c.options.snapshot_every = *rc::gen::inRange<size_t>(1, 20);
  c.options.waiting_max = *rc::gen::inRange<size_t>(1, 8);
  c.options.waiting_tokens_max = *rc::gen::inRange<size_t>(1, 200);
  c.options.reuse_prefix = *rc::gen::arbitrary<bool>();
  c.options.speculate = *rc::gen::arbitrary<bool>();
  if (c.chain.steps_max == 1 && *rc::gen::arbitrary<bool>()) {
    c.chain.predicts = true;
    c.chain.wrong_every = *rc::gen::inRange<size_t>(1, 6);
    if (*rc::gen::arbitrary<bool>()) c.options.predict_always = *rc::gen::inRange<size_t>(0, 8);
  }
  return c;
}

// Prompts that often begin alike.
std::vector<int32_t> any_prompt(size_t size_max) {
  const auto size = *rc::gen::inRange<size_t>(1, size_max + 1);
  const auto common = *rc::gen::inRange<size_t>(0, size + 1);
  const auto other = *rc::gen::inRange<int32_t>(0, 3);
  std::vector<int32_t> prompt;
  for (size_t i = 0; i < size; ++i) prompt.push_back(static_cast<int32_t>(i % 7) + (i < common ? 0 : other));
  return prompt;
}

TEST(SchedulerModel, AnyOrderOfEvents) {
  EXPECT_TRUE(rc::check([] {
    const Case c = any_case();
    SchedulerDriver driver(c.chain, c.options);
    std::map<RequestId, std::vector<int32_t>> prompts;
    uint64_t next_id = 1;
    const size_t context = driver.scheduler.context();
    const auto events = *rc::gen::container<std::vector<uint8_t>>(rc::gen::inRange<uint8_t>(0, 20));
    for (const uint8_t event : events) {
      if (event < 7) {
        auto prompt = any_prompt(context);
        const size_t most = std::min<size_t>(12, context + 1 - prompt.size());
        const size_t count = *rc::gen::inRange<size_t>(1, most + 1);
        if (driver.submit(next_id, prompt, count, next_id % 3)) prompts[RequestId{next_id}] = prompt;
        ++next_id;
      } else if (event < 9 && next_id > 1) {
        const RequestId id{*rc::gen::inRange<uint64_t>(1, next_id)};
        const bool known = driver.scheduler.knows(id);
        RC_ASSERT(driver.scheduler.finish(id) == known);
        if (known) prompts.erase(id);
      } else if (event == 9) {
        driver.reset();
      } else if (event < 13) {
        while (driver.begin() && event < 11) continue;  // all that may be under way, or one
      } else if (!driver.plans.empty()) {
        driver.end();
      }
      RC_ASSERT(driver.scheduler.inconsistency() == "");
      RC_ASSERT(driver.scheduler.in_flight() == driver.plans.size());
    }
    // No more events: everything ends, in a number of steps that the work bounds.
    size_t work = 100;
    for (const auto& [id, prompt] : prompts) work += prompt.size() + 12;
    const size_t most = 4 * work * prompts.size() + 100;  // with those that are begun in vain
    const size_t steps = *rc::gen::arbitrary<bool>() ? driver.run(most) : driver.run_full(most);
    RC_ASSERT(steps < most);
    RC_ASSERT(driver.scheduler.requests().empty());
    RC_ASSERT(driver.scheduler.inconsistency() == "");
    RC_ASSERT(driver.scheduler.pages().used() == 0u);
    RC_ASSERT(driver.scheduler.pages().side(graph::PageKind::kWindow).used() == 0u);
    RC_ASSERT(driver.scheduler.pages().side(graph::PageKind::kState).used() == 0u);
    for (const auto& [id, prompt] : prompts)
      RC_ASSERT(driver.texts[id] == greedy_text(c.chain, prompt, driver.limits[id]));
  }));
}

}  // namespace
}  // namespace butterfly::runtime
