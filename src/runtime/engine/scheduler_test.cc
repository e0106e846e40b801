// The scheduler without threads, clocks or models: who runs, what is read once, what happens when pages run
// short.
#include "runtime/engine/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <deque>
#include <optional>

#include "runtime/engine/testing/scheduler_driver.h"

namespace butterfly::runtime {
namespace {

using testing::FakeChainOptions;
using testing::greedy_text;
using ::testing::HasSubstr;
using testing::SchedulerDriver;

std::vector<int32_t> tokens(size_t count, int32_t seed) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < count; ++i)
    ids.push_back(static_cast<int32_t>(random_u64(static_cast<uint64_t>(seed), 0, i) % 64));
  return ids;
}

TEST(Scheduler, ReadsThePromptThenGoesOnOneByOne) {
  SchedulerDriver driver({}, {});
  ASSERT_TRUE(driver.submit(1, tokens(10, 1), 5));
  const size_t steps = driver.run();
  EXPECT_EQ(driver.texts[RequestId{1}], greedy_text({}, tokens(10, 1), 5));
  EXPECT_EQ(steps, 5u) << "one to read, which gives the first token, and four more";
  EXPECT_EQ(driver.scheduler.pages().used(), 0u);
  EXPECT_FALSE(driver.scheduler.knows(RequestId{1}));
}

TEST(Scheduler, RefusesWhatNeverFitsWithBothNumbers) {
  SchedulerDriver driver({.pages = 4, .page_positions = 4}, {});
  EXPECT_EQ(driver.scheduler.context(), 16u);
  const Status status = driver.submit(1, tokens(17, 1), 5);
  EXPECT_EQ(status.code(), Errc::kInvalidArgument);
  EXPECT_THAT(status.text(), HasSubstr("17 tokens"));
  EXPECT_THAT(status.text(), HasSubstr("holds 16"));
  EXPECT_EQ(driver.submit(2, {}, 5).code(), Errc::kInvalidArgument);
  EXPECT_TRUE(driver.submit(3, tokens(16, 1), 1)) << "exactly full";
  driver.run();
  EXPECT_EQ(driver.texts[RequestId{3}].size(), 1u);
}

TEST(Scheduler, TheQueueIsBoundedInRequestsAndInTokens) {
  SchedulerDriver driver({}, {.running_max = 1, .waiting_max = 2, .waiting_tokens_max = 40});
  EXPECT_TRUE(driver.submit(1, tokens(50, 1), 1)) << "alone it may be larger than the bound";
  EXPECT_EQ(driver.submit(2, tokens(1, 1), 1).code(), Errc::kQueueFull);
  driver.run();
  for (uint64_t id = 3; id < 6; ++id)
    EXPECT_TRUE(driver.submit(id, tokens(10, 1), 1)) << "two wait, and one has a place";
  const Status full = driver.submit(6, tokens(1, 1), 1);
  EXPECT_EQ(full.code(), Errc::kQueueFull);
  EXPECT_THAT(full.text(), HasSubstr("at most 3"));
  EXPECT_TRUE(driver.scheduler.finish(RequestId{3}));
  const Status long_one = driver.submit(7, tokens(21, 1), 1);
  EXPECT_EQ(long_one.code(), Errc::kQueueFull);
  EXPECT_THAT(long_one.text(), HasSubstr("21 more"));
  EXPECT_TRUE(driver.submit(8, tokens(20, 1), 1));
}

TEST(Scheduler, ASecondRequestStartsWhereTheFirstHasBeen) {
  SchedulerDriver driver({}, {});
  auto prompt = tokens(18, 1);
  ASSERT_TRUE(driver.submit(1, prompt, 3));
  driver.run();
  const auto first = driver.texts[RequestId{1}];
  const uint64_t rows = driver.scheduler.stats().rows;
  prompt.insert(prompt.end(), first.begin(), first.end());  // the next turn of a conversation
  prompt.push_back(9);
  ASSERT_TRUE(driver.submit(2, prompt, 2));
  ASSERT_TRUE(driver.begin());
  EXPECT_EQ(driver.scheduler.sequence(RequestId{2}).cached_tokens, 20u) << "five whole pages of four";
  driver.end();
  driver.run();
  EXPECT_EQ(driver.scheduler.stats().rows - rows, 22u - 20u + 1u);
  EXPECT_EQ(driver.texts[RequestId{2}], greedy_text({}, prompt, 2));
}

TEST(Scheduler, WhatOneClientSentIsNotSeenByAnother) {
  const auto cached = [](bool share, uint64_t client) {
    SchedulerDriver driver({}, {.share_prefixes = share});
    EXPECT_TRUE(driver.submit(1, tokens(18, 1), 3, 7));
    driver.run();
    EXPECT_TRUE(driver.submit(2, tokens(18, 1), 1, client));
    EXPECT_TRUE(driver.begin());
    const size_t count = driver.scheduler.sequence(RequestId{2}).cached_tokens;
    EXPECT_EQ(driver.scheduler.inconsistency(), "");
    driver.end();
    driver.run();
    EXPECT_EQ(driver.texts[RequestId{2}], greedy_text({}, tokens(18, 1), 1));
    return count;
  };
  EXPECT_EQ(cached(false, 7), 16u) << "its own";
  EXPECT_EQ(cached(false, 8), 0u);
  EXPECT_EQ(cached(false, 0), 0u);
  EXPECT_EQ(cached(true, 8), 16u) << "by choice";
}

TEST(Scheduler, EqualPromptsOfTwoClientsDoNotWaitForEachOther) {
  SchedulerDriver driver({}, {});
  ASSERT_TRUE(driver.submit(1, tokens(18, 1), 2, 7));
  ASSERT_TRUE(driver.submit(2, tokens(18, 1), 2, 8));
  ASSERT_TRUE(driver.begin());
  EXPECT_EQ(driver.scheduler.running(), 2u);
  driver.end();
  driver.run();
}

struct InChain {
  double time;
  SchedulerStats stats;
};

// One text in a chain of four equal stages, each of which takes ten for a step and one for each row; with
// `processors` for all of them.
InChain in_chain(const FakeChainOptions& chain, size_t processors, const std::vector<int32_t>& prompt,
                 size_t count) {
  SchedulerDriver driver(chain, {});
  EXPECT_TRUE(driver.submit(1, prompt, count));
  std::array<double, 4> free{};
  std::deque<double> done;
  double now = 0;
  for (;;) {
    while (driver.begin()) {
      double at = now;
      for (size_t stage = 0; stage < free.size(); ++stage) {
        double& processor = free[stage % processors];
        at = processor =
            std::max(at, processor) + 10 + static_cast<double>(driver.plans.back().request.rows.size());
      }
      done.push_back(at);
    }
    if (driver.plans.empty()) break;
    driver.passed = std::chrono::nanoseconds(std::llround((done.front() - now) * 1e6));
    now = done.front();
    done.pop_front();
    driver.end();
  }
  EXPECT_EQ(driver.texts[RequestId{1}], greedy_text(chain, prompt, count));
  EXPECT_EQ(driver.scheduler.pages().used(), 0u);
  return {now, driver.scheduler.stats()};
}

// Three of four stages would be idle.
TEST(SchedulerAhead, WhatIsLikelyBeginsBeforeItIsKnown) {
  const SchedulerStats stats =
      in_chain({.pages = 64, .steps_max = 4, .loops = true}, 4, tokens(10, 1), 150).stats;
  EXPECT_GT(stats.ahead_steps, 3 * stats.ahead_void)
      << stats.ahead_steps << " begun, in vain " << stats.ahead_void;
  EXPECT_GE(stats.ahead_steps, 3u);
}

TEST(SchedulerAhead, OneTextKeepsTheStagesBusy) {
  const auto gain = [](size_t processors, bool loops, const std::vector<int32_t>& prompt) {
    FakeChainOptions chain{.pages = 128, .loops = loops};
    const double alone = in_chain(chain, processors, prompt, 400).time;
    chain.steps_max = 4;
    return alone / in_chain(chain, processors, prompt, 400).time;
  };
  EXPECT_GT(gain(4, true, tokens(10, 1)), 1.5) << "a text that repeats itself";
  std::vector<int32_t> misleading;
  for (int32_t i = 0; i < 60; ++i) misleading.push_back(i % 6);
  EXPECT_GT(gain(4, false, misleading), 0.95);
  EXPECT_GT(gain(4, false, tokens(60, 3)), 0.99);
  // Stages on one machine have nothing idle: what is measured tells, and little is tried.
  EXPECT_GT(gain(1, true, tokens(10, 1)), 0.95);
  EXPECT_GT(gain(1, false, misleading), 0.95);
}

TEST(SchedulerAhead, WhatWasWrongIsForgottenAndSoonNotTried) {
  FakeChainOptions chain{.pages = 64, .steps_max = 3};
  SchedulerDriver driver(chain, {});
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < 60; ++i) prompt.push_back(i % 6);  // what the model says has nothing to do with it
  ASSERT_TRUE(driver.submit(1, prompt, 120));
  driver.run_full();
  EXPECT_EQ(driver.texts[RequestId{1}], greedy_text(chain, prompt, 120));
  EXPECT_LE(driver.scheduler.stats().ahead_void, 10u);
}

TEST(SchedulerAhead, AStepInTheMiddleOfGuessesCanBeTheLast) {
  for (size_t limit = 1; limit < 40; ++limit) {
    FakeChainOptions chain{.pages = 64, .steps_max = 4, .loops = true};
    SchedulerDriver driver(chain, {});
    ASSERT_TRUE(driver.submit(1, tokens(10, 1), limit));
    driver.run_full();
    EXPECT_EQ(driver.texts[RequestId{1}], greedy_text(chain, tokens(10, 1), limit));
    EXPECT_EQ(driver.scheduler.pages().used(), 0u);
    EXPECT_EQ(driver.scheduler.inconsistency(), "");
  }
}

// Right tokens, but not as many as there were guesses: what began behind the last guess goes on from
// elsewhere.
TEST(SchedulerAhead, AChoiceThatStopsAmongGuessesLeavesTheStepsBehindInVain) {
  uint64_t ahead = 0;
  for (const size_t choices : {1, 2, 3, 4}) {
    FakeChainOptions chain{.pages = 64, .steps_max = 4, .loops = true};
    SchedulerDriver driver(chain, {});
    driver.choices_max = choices;
    ASSERT_TRUE(driver.submit(1, tokens(10, 1), 150));
    driver.run_full();
    EXPECT_EQ(driver.texts[RequestId{1}], greedy_text(chain, tokens(10, 1), 150)) << choices;
    EXPECT_EQ(driver.scheduler.inconsistency(), "");
    ahead += driver.scheduler.stats().ahead_steps;
  }
  EXPECT_GT(ahead, 0u);
}

TEST(SchedulerAhead, StatesThatCannotGoBackAreNotGuessed) {
  FakeChainOptions chain{.pages = 64, .steps_max = 4, .loops = true};
  chain.state_pages = 12;
  SchedulerDriver driver(chain, {});
  ASSERT_TRUE(driver.submit(1, tokens(10, 1), 100));
  driver.run_full();
  EXPECT_EQ(driver.scheduler.stats().ahead_steps, 0u);
}

TEST(Scheduler, AChoiceMayComeLater) {
  SchedulerDriver driver({}, {});
  ASSERT_TRUE(driver.submit(1, tokens(10, 1), 3));
  ASSERT_TRUE(driver.begin());
  const StepPlan plan = driver.plans.front();
  driver.plans.clear();
  const int32_t first =
      testing::greedy_choice(driver.chain.receive(Duration(0)).logits.last(driver.chain_options.vocab));
  driver.scheduler.complete(plan.request.step, driver.base, {{RequestId{1}, {}, false, true}});
  EXPECT_EQ(driver.scheduler.inconsistency(), "");
  EXPECT_FALSE(driver.scheduler.plan()) << "nothing to compute before it is chosen";
  // Even if all is lost meanwhile: what was read is read again, and nothing chosen twice.
  driver.reset();
  driver.run();
  EXPECT_TRUE(driver.texts[RequestId{1}].empty());
  EXPECT_FALSE(driver.scheduler.plan());
  driver.scheduler.choose({RequestId{1}, {first}, false});
  driver.texts[RequestId{1}].push_back(first);
  EXPECT_EQ(driver.scheduler.inconsistency(), "");
  driver.run();
  EXPECT_EQ(driver.texts[RequestId{1}], greedy_text({}, tokens(10, 1), 3));
}

TEST(Scheduler, EqualPromptsAreReadOnceEvenWhenTheyComeTogether) {
  SchedulerDriver driver({.pages = 256}, {});
  for (uint64_t id = 1; id <= 8; ++id) ASSERT_TRUE(driver.submit(id, tokens(41, 1), 2));
  driver.run();
  for (uint64_t id = 1; id <= 8; ++id)
    EXPECT_EQ(driver.texts[RequestId{id}], greedy_text({}, tokens(41, 1), 2));
  EXPECT_EQ(driver.scheduler.stats().rows, 41u + 7 * 1 + 8 * 1)
      << "41 once, the last position of each, one more each";
}

TEST(Scheduler, WithoutReuseEverythingIsComputed) {
  SchedulerDriver driver({}, {.reuse_prefix = false});
  for (uint64_t id = 1; id <= 2; ++id) {
    ASSERT_TRUE(driver.submit(id, tokens(18, 1), 1));
    driver.run();
  }
  EXPECT_EQ(driver.scheduler.stats().rows, 36u);
  EXPECT_EQ(driver.scheduler.pages().kept(), 0u);
}

TEST(Scheduler, WhenPagesRunShortTheYoungestGoesAndComesBack) {
  const FakeChainOptions chain{.pages = 8, .page_positions = 4};
  SchedulerDriver driver(chain, {});
  for (uint64_t id = 1; id <= 4; ++id)
    ASSERT_TRUE(driver.submit(id, tokens(3, static_cast<int32_t>(id)), 20));
  while (driver.step()) ASSERT_EQ(driver.scheduler.inconsistency(), "");
  EXPECT_GT(driver.scheduler.stats().preemptions, 0u);
  EXPECT_EQ(driver.finished.front(), RequestId{1}) << "the oldest is never sent away";
  for (uint64_t id = 1; id <= 4; ++id)
    EXPECT_EQ(driver.texts[RequestId{id}], greedy_text(chain, tokens(3, static_cast<int32_t>(id)), 20));
  EXPECT_EQ(driver.scheduler.pages().used(), 0u);
}

TEST(Scheduler, ClientsGetEqualTurnsHoweverManyRequestsTheyHave) {
  SchedulerDriver driver({}, {.running_max = 2});
  for (uint64_t id = 1; id <= 20; ++id)
    ASSERT_TRUE(driver.submit(id, tokens(8, static_cast<int32_t>(id)), 8, 7));
  driver.step();
  for (uint64_t id = 21; id <= 24; ++id)
    ASSERT_TRUE(driver.submit(id, tokens(8, static_cast<int32_t>(id)), 8, 8));
  driver.run();
  const auto place = [&](uint64_t id) {
    return std::ranges::find(driver.finished, RequestId{id}) - driver.finished.begin();
  };
  EXPECT_LT(place(24), 10) << "the second client's four are not behind the first one's twenty";
  EXPECT_EQ(driver.finished.size(), 24u);
}

// 16 long texts of a greedy client in the background, with long prompts, beside one of another.
TEST(Scheduler, TheBackgroundCostsOthersATenthAtMost) {
  const FakeChainOptions chain{.pages = 4096, .rows_max = 512};
  const auto time_of = [&](bool greedy, bool background, size_t* others) {
    SchedulerDriver driver(chain, {});
    Duration total{};
    for (uint64_t id = 100; greedy && id < 116; ++id)
      EXPECT_TRUE(driver.submit(id, tokens(600, static_cast<int32_t>(id)), 100'000, 7, background));
    for (size_t i = 0; i < 20; ++i) driver.step();
    for (uint64_t id = 1; id <= 8; ++id) {  // one after the other
      EXPECT_TRUE(driver.submit(id, tokens(40, static_cast<int32_t>(id)), 100));
      while (driver.scheduler.knows(RequestId{id})) {
        driver.step();
        total += driver.last_time;
      }
    }
    *others = 0;
    for (const auto& [id, text] : driver.texts)
      if (static_cast<uint64_t>(id) >= 100) *others += text.size();
    EXPECT_EQ(driver.scheduler.inconsistency(), "");
    return std::chrono::duration<double>(total).count();
  };
  size_t none = 0, shared = 0, behind = 0;
  const double alone = time_of(false, false, &none), beside = time_of(true, false, &shared),
               after = time_of(true, true, &behind);
  EXPECT_GT(beside, 1.5 * alone) << "sharing costs";
  EXPECT_LE(after, 1.1 * alone);
  EXPECT_GT(behind, 20u) << "and the others are not starved";
  ::testing::Test::RecordProperty("alone_seconds", std::to_string(alone));
  ::testing::Test::RecordProperty("behind_seconds", std::to_string(after));
}

// Short requests come one after the other, each just after a step of the background has begun.
TEST(Scheduler, TheBackgroundPaysForWhatOthersWaitForIt) {
  const FakeChainOptions chain{.pages = 4096, .rows_max = 512};
  const auto time_of = [&](bool greedy) {
    SchedulerDriver driver(chain, {});
    Duration total{};
    for (uint64_t id = 100; greedy && id < 116; ++id)
      EXPECT_TRUE(driver.submit(id, tokens(60, static_cast<int32_t>(id)), 100'000, 7, true));
    for (size_t i = 0; i < 40; ++i) driver.step();
    for (uint64_t id = 1; id <= 20; ++id) {
      const bool busy = driver.begin();
      EXPECT_EQ(busy, greedy);
      EXPECT_TRUE(driver.submit(id, tokens(40, static_cast<int32_t>(id)), 30));
      if (busy) {
        driver.end();
        total += driver.last_time;
      }
      while (driver.scheduler.knows(RequestId{id})) {
        driver.step();
        total += driver.last_time;
      }
    }
    return std::chrono::duration<double>(total).count();
  };
  EXPECT_LE(time_of(true), 1.1 * time_of(false));
}

TEST(Scheduler, ALongPromptDoesNotStallStreams) {
  // 10 ms for a step and 1 ms for each row.
  const FakeChainOptions chain{.pages = 1024, .rows_max = 512};
  SchedulerDriver driver(chain, {});
  for (uint64_t id = 1; id <= 4; ++id)
    ASSERT_TRUE(driver.submit(id, tokens(8, static_cast<int32_t>(id)), 400));
  while (driver.scheduler.stats().generated_tokens < 40) driver.step();
  const Duration alone = driver.last_time;
  ASSERT_TRUE(driver.submit(9, tokens(2000, 9), 1));
  Duration longest{}, total{};
  size_t steps = 0;
  while (driver.scheduler.knows(RequestId{9})) {
    driver.step();
    longest = std::max(longest, driver.last_time);
    total += driver.last_time;
    ++steps;
  }
  EXPECT_LE(longest, 3 * alone);
  EXPECT_GT(2 * total / static_cast<int64_t>(steps), 3 * alone) << "and what is allowed is used";
  EXPECT_EQ(driver.texts[RequestId{1}].size(), driver.texts[RequestId{4}].size());
}

TEST(Scheduler, ABurstIsReadInAtThePaceItWillHave) {
  // 10 ms for a step and 1 ms for each row: one stream takes 11 ms, eight take 18.
  SchedulerDriver driver({.pages = 1024, .rows_max = 512}, {.speculate = false});
  for (uint64_t id = 1; id <= 8; ++id)
    ASSERT_TRUE(driver.submit(id, tokens(8, static_cast<int32_t>(id)), 30));
  driver.run();
  ASSERT_TRUE(driver.submit(20, tokens(8, 20), 400));
  while (driver.texts[RequestId{20}].size() < 5) driver.step();
  const Duration alone = driver.last_time;
  for (uint64_t id = 21; id <= 27; ++id)
    ASSERT_TRUE(driver.submit(id, tokens(300, static_cast<int32_t>(id)), 400));
  Duration longest{};
  for (int i = 0; i < 10; ++i) {
    driver.step();
    longest = std::max(longest, driver.last_time);
  }
  ASSERT_EQ(driver.scheduler.running(), 8u);
  EXPECT_GT(longest, 2 * alone) << "soon there are eight, which are slower anyway";
  EXPECT_LE(longest, 5 * alone / 2);
}

TEST(Scheduler, WhatComesTogetherIsReadTogetherButNobodyWaitsForLong) {
  SchedulerDriver driver({.pages = 4096, .rows_max = 512}, {.speculate = false});
  ASSERT_TRUE(driver.submit(1, tokens(64, 1), 2));
  driver.run();  // what a row takes
  for (uint64_t id = 2; id <= 9; ++id)
    ASSERT_TRUE(driver.submit(id, tokens(128, static_cast<int32_t>(id)), 20));
  for (size_t step = 0; step < 4 && driver.texts[RequestId{9}].empty(); ++step) {
    driver.step();
    for (uint64_t id = 2; id <= 9; ++id) EXPECT_LE(driver.texts[RequestId{id}].size(), 1u);
  }
  EXPECT_EQ(driver.texts[RequestId{9}].size(), 1u);
  // Now they run, and are not held up again by what comes later.
  for (int step = 0; step < 3; ++step) driver.step();
  ASSERT_TRUE(driver.submit(10, tokens(300, 10), 5));
  const size_t before = driver.texts[RequestId{2}].size();
  for (int step = 0; step < 3; ++step) driver.step();
  EXPECT_EQ(driver.texts[RequestId{2}].size(), before + 3);
  driver.run();
  // New ones without end: the first is held a few steps only.
  ASSERT_TRUE(driver.submit(20, tokens(64, 20), 5));
  size_t steps = 0;
  for (uint64_t id = 21; driver.texts[RequestId{20}].size() < 2; ++id, ++steps) {
    ASSERT_LT(steps, 20u);
    ASSERT_TRUE(driver.submit(id, tokens(300, static_cast<int32_t>(id)), 1));
    driver.step();
  }
}

TEST(Scheduler, AShortPromptDoesNotWaitForALongOne) {
  SchedulerDriver driver({.pages = 1024, .rows_max = 64}, {});
  ASSERT_TRUE(driver.submit(1, tokens(2000, 1), 1));
  driver.step();
  ASSERT_TRUE(driver.submit(2, tokens(20, 2), 1));
  driver.run();
  EXPECT_EQ(driver.finished.front(), RequestId{2});
}

TEST(Scheduler, PromptStepsStayShort) {
  SchedulerDriver driver({.pages = 4096, .rows_max = 2048}, {});
  ASSERT_TRUE(driver.submit(1, tokens(4000, 1), 1));
  Duration longest{};
  while (driver.step()) longest = std::max(longest, driver.last_time);
  EXPECT_LE(longest, std::chrono::milliseconds(600));
  EXPECT_GE(longest, std::chrono::milliseconds(300));
}

TEST(Scheduler, GuessesSaveStepsAndChangeNothing) {
  const FakeChainOptions chain{.loops = true};
  const auto steps = [&](bool speculate) {
    SchedulerDriver driver(chain, {.speculate = speculate});
    EXPECT_TRUE(driver.submit(1, tokens(5, 1), 150));
    const size_t count = driver.run();
    EXPECT_EQ(driver.texts[RequestId{1}], greedy_text(chain, tokens(5, 1), 150));
    EXPECT_EQ(driver.scheduler.stats().draft_accepted > 0, speculate);
    return count;
  };
  EXPECT_LT(steps(true) * 3, steps(false));
}

TEST(SchedulerPredict, WhatTheModelPredictsSavesStepsAndChangesNothing) {
  for (const size_t wrong_every : {SIZE_MAX, size_t{5}, size_t{1}})
    for (const std::optional<size_t> always : {std::optional<size_t>(), {0}, {3}}) {
      // Pages run short where some are wrong.
      const FakeChainOptions chain{
          .pages = wrong_every == SIZE_MAX ? 128u : 40u, .predicts = true, .wrong_every = wrong_every};
      SchedulerDriver driver(chain, {.predict_always = always});
      for (uint64_t id = 1; id <= 4; ++id)
        ASSERT_TRUE(driver.submit(id, tokens(5 + 3 * id, static_cast<int32_t>(id)), 60));
      size_t steps = 0;
      for (; driver.step(); ++steps) ASSERT_EQ(driver.scheduler.inconsistency(), "") << steps;
      for (uint64_t id = 1; id <= 4; ++id)
        EXPECT_EQ(driver.texts[RequestId{id}],
                  greedy_text(chain, tokens(5 + 3 * id, static_cast<int32_t>(id)), 60));
      const auto& stats = driver.scheduler.stats();
      EXPECT_EQ(driver.scheduler.pages().used(), 0u);
      if (wrong_every == SIZE_MAX && always == size_t{3}) {
        EXPECT_EQ(stats.draft_accepted, stats.draft_tokens);
        EXPECT_LT(steps, 30u) << "of 60 and more";
      }
      if (wrong_every == 1 && !always) {
        EXPECT_LT(stats.draft_tokens, 60u) << "of 240: soon nothing is asked for any more";
      }
    }
}

TEST(SchedulerPredict, PredictionsThatCostMoreThanTheySaveAreNotAskedFor) {
  const auto steps = [](Duration prediction) {
    SchedulerDriver driver({.predicts = true}, {});
    driver.prediction = prediction;
    EXPECT_TRUE(driver.submit(1, tokens(5, 1), 100));
    return driver.run();
  };
  EXPECT_LT(steps(std::chrono::milliseconds(1)), 50u);
  EXPECT_GT(steps(std::chrono::milliseconds(50)), 90u);
}

TEST(Scheduler, GuessesThatAreNeverRightCostAlmostNothing) {
  // Text without repetition but for pairs that mislead.
  const FakeChainOptions chain{.vocab = 3};
  SchedulerDriver driver(chain, {});
  EXPECT_TRUE(driver.submit(1, tokens(5, 1), 200));
  driver.base = std::chrono::milliseconds(20);
  driver.per_row = std::chrono::milliseconds(5);
  driver.run();
  const auto& stats = driver.scheduler.stats();
  const double lost =
      0.2 * static_cast<double>(stats.draft_tokens) - static_cast<double>(stats.draft_accepted);
  EXPECT_LT(lost, 0.03 * 200);
}

TEST(Scheduler, SeveralStepsUnderWayShareTheStreams) {
  const FakeChainOptions chain{.steps_max = 3};
  SchedulerDriver driver(chain, {});
  for (uint64_t id = 1; id <= 6; ++id)
    ASSERT_TRUE(driver.submit(id, tokens(4, static_cast<int32_t>(id)), 30));
  size_t most = 0;
  for (;;) {
    while (driver.begin()) {
    }
    most = std::max(most, driver.scheduler.in_flight());
    if (driver.plans.empty()) break;
    driver.end();
    ASSERT_EQ(driver.scheduler.inconsistency(), "");
  }
  EXPECT_EQ(most, 3u);
  for (uint64_t id = 1; id <= 6; ++id)
    EXPECT_EQ(driver.texts[RequestId{id}], greedy_text(chain, tokens(4, static_cast<int32_t>(id)), 30));
}

TEST(Scheduler, AfterAResetEverythingIsReadAgainFromTheLogs) {
  SchedulerDriver driver({}, {});
  for (uint64_t id = 1; id <= 3; ++id)
    ASSERT_TRUE(driver.submit(id, tokens(9, static_cast<int32_t>(id)), 12));
  for (int i = 0; i < 4; ++i) driver.step();
  ASSERT_TRUE(driver.begin());  // and one is under way
  driver.reset();
  EXPECT_EQ(driver.scheduler.inconsistency(), "");
  EXPECT_EQ(driver.scheduler.pages().used(), 0u);
  EXPECT_EQ(driver.scheduler.epoch(), 2u);
  driver.run();
  for (uint64_t id = 1; id <= 3; ++id)
    EXPECT_EQ(driver.texts[RequestId{id}], greedy_text({}, tokens(9, static_cast<int32_t>(id)), 12));
}

TEST(Scheduler, DeadlinesAreFound) {
  SchedulerDriver driver({}, {});
  const TimePoint start{};
  Submission submission;
  submission.id = RequestId{1};
  submission.prompt = tokens(4, 1);
  submission.deadline = start + std::chrono::seconds(2);
  ASSERT_TRUE(driver.scheduler.submit(submission));
  ASSERT_TRUE(driver.submit(2, tokens(4, 2), 3));
  EXPECT_EQ(driver.scheduler.next_deadline(), submission.deadline);
  EXPECT_THAT(driver.scheduler.expired(start + std::chrono::seconds(1)), ::testing::IsEmpty());
  EXPECT_THAT(driver.scheduler.expired(start + std::chrono::seconds(2)),
              ::testing::ElementsAre(RequestId{1}));
}

TEST(Scheduler, AChainReadsOnePromptInSeveralStepsAtOnce) {
  const FakeChainOptions chain{.pages = 200, .rows_max = 512, .steps_max = 3};
  SchedulerDriver driver(chain, {});
  ASSERT_TRUE(driver.submit(1, tokens(300, 1), 5));
  size_t most = 0;
  while (driver.scheduler.knows(RequestId{1})) {
    while (driver.begin()) {
    }
    most = std::max(most, driver.plans.size());
    ASSERT_EQ(driver.scheduler.inconsistency(), "");
    ASSERT_FALSE(driver.plans.empty());
    driver.end();
  }
  EXPECT_EQ(most, 3u) << "as many as there are stages";
  EXPECT_EQ(driver.texts[RequestId{1}], greedy_text(chain, tokens(300, 1), 5));
  EXPECT_EQ(driver.scheduler.pages().used(), 0u);
  EXPECT_EQ(driver.scheduler.stats().rows, 300u + 4);
}

TEST(Scheduler, WhoeverEndsWhileItsPromptIsUnderWayLeavesNothing) {
  SchedulerDriver driver({.pages = 100, .rows_max = 64, .steps_max = 3}, {});
  ASSERT_TRUE(driver.submit(1, tokens(250, 1), 5));
  ASSERT_TRUE(driver.submit(2, tokens(30, 2), 5));
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(driver.begin());
  EXPECT_TRUE(driver.scheduler.finish(RequestId{1}));
  driver.run();
  EXPECT_EQ(driver.texts[RequestId{2}], greedy_text({.pages = 100}, tokens(30, 2), 5));
  EXPECT_EQ(driver.scheduler.inconsistency(), "");
  EXPECT_EQ(driver.scheduler.pages().used(), 0u);
}

TEST(Scheduler, MovesToAnotherChainWithWhatThatOneHas) {
  SchedulerDriver driver({.pages = 16, .page_positions = 4, .sequences = 8, .steps_max = 2},
                         {.running_max = 6});
  for (uint64_t id = 1; id <= 5; ++id)
    ASSERT_TRUE(driver.submit(id, tokens(4 * id, static_cast<int32_t>(id)), 9));
  for (size_t i = 0; i < 3; ++i) driver.step();
  const uint64_t epoch = driver.scheduler.epoch();
  ChainInfo less = driver.chain.info();
  less.pages = 5;
  less.sequences = 2;
  less.steps_max = 1;
  EXPECT_EQ(driver.scheduler.move_to(less), epoch + 1);
  EXPECT_EQ(driver.scheduler.context(), 20u);
  EXPECT_EQ(driver.scheduler.pages().page_count(), 5u);
  EXPECT_EQ(driver.scheduler.running(), 0u);
  EXPECT_EQ(driver.scheduler.waiting(), 5u);
  EXPECT_EQ(driver.scheduler.inconsistency(), "");
  const auto too_long = driver.scheduler.too_long();
  for (const RequestId id : too_long) EXPECT_GT(driver.scheduler.sequence(id).tokens.size(), 20u);
  for (const RequestId id : too_long) EXPECT_TRUE(driver.scheduler.finish(id));
  const auto plan = driver.scheduler.plan();
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->request.epoch, epoch + 1);
  EXPECT_LE(plan->parts.size(), 2u);
  EXPECT_FALSE(driver.scheduler.plan()) << "one step at a time";
  EXPECT_EQ(driver.scheduler.inconsistency(), "");
}

}  // namespace
}  // namespace butterfly::runtime
