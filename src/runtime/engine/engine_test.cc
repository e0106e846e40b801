// The engine's thread and its promises to callers, on a chain without a model.
#include "runtime/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <latch>
#include <thread>

#include "cluster/member/health.h"
#include "cluster/transport/tcp.h"
#include "model/sampling/logprobs.h"
#include "runtime/engine/suspects.h"
#include "runtime/engine/testing/collector.h"
#include "runtime/engine/testing/fake_chain.h"

namespace butterfly::runtime {
namespace {

using testing::Collector;
using testing::FakeChain;
using testing::FakeChainOptions;
using ::testing::HasSubstr;

std::vector<int32_t> prompt(size_t count, uint64_t seed) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>(random_u64(seed, 0, i) % 64));
  return ids;
}

EngineRequest request(size_t size, uint64_t seed, size_t tokens_max, float temperature = 0.8f) {
  EngineRequest r;
  r.prompt = prompt(size, seed);
  r.tokens_max = tokens_max;
  r.sampling.temperature = temperature;
  r.sampling.seed = seed;
  return r;
}

// What the request must give, by a plain loop.
std::vector<int32_t> expected(const FakeChainOptions& chain, const EngineRequest& r) {
  model::Sampler sampler(r.sampling);
  std::vector<int32_t> tokens = r.prompt;
  for (size_t i = 0; i < r.tokens_max; ++i)
    tokens.push_back(sampler.sample(FakeChain::logits_after(chain, tokens), tokens, tokens.size()));
  return {tokens.begin() + static_cast<ptrdiff_t>(r.prompt.size()), tokens.end()};
}

std::unique_ptr<Engine> make(const FakeChainOptions& chain, const EngineOptions& options = {},
                             Clock& clock = SystemClock::instance()) {
  return std::make_unique<Engine>(std::make_unique<FakeChain>(chain), nullptr, options, clock);
}

TEST(Engine, ManyAtOnceGetWhatEachWouldGetAlone) {
  const FakeChainOptions chain{.pages = 60, .steps_max = 2};  // too few for all
  auto engine = make(chain);
  std::vector<std::shared_ptr<Collector>> sinks;
  for (uint64_t i = 0; i < 24; ++i) {
    sinks.push_back(std::make_shared<Collector>());
    ASSERT_TRUE(engine->submit(request(5 + i * 3, i, 30 + i), sinks.back()).ok());
  }
  for (uint64_t i = 0; i < 24; ++i) {
    const FinishEvent& end = sinks[i]->wait();
    EXPECT_EQ(end.reason, FinishReason::kLength);
    EXPECT_EQ(end.usage.generated_tokens, 30 + i);
    EXPECT_EQ(sinks[i]->tokens(), expected(chain, request(5 + i * 3, i, 30 + i))) << i;
  }
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.running + stats.waiting + stats.pages_used, 0u);
  EXPECT_EQ(stats.finished[static_cast<size_t>(FinishReason::kLength)], 24u);
  EXPECT_EQ(stats.first_token.count(), 24u);
  EXPECT_FALSE(stats.busy_since);
}

TEST(Engine, TenThousandAbortedRequestsLeaveNothingBehind) {
  auto engine = make({.pages = 32}, {.scheduler = {.running_max = 8, .waiting_max = 64}});
  std::atomic<size_t> cancelled = 0, submitted = 0;
  const auto work = [&](uint64_t seed) {
    for (uint64_t i = 0; i < 5000; ++i) {
      auto sink = std::make_shared<Collector>();
      const auto id = engine->submit(request(1 + i % 20, seed + i, 1000), sink);
      if (!id.ok()) {
        EXPECT_EQ(id.status().code(), Errc::kQueueFull);
        std::this_thread::yield();
        continue;
      }
      ++submitted;
      if (i % 4 == 0) sink->wait_for_tokens(1);
      engine->cancel(*id);
      engine->cancel(*id);
      const FinishReason reason = sink->wait().reason;
      EXPECT_TRUE(reason == FinishReason::kCancelled ||
                  reason == FinishReason::kContext);  // it may have been done
      cancelled += reason == FinishReason::kCancelled;
    }
  };
  std::thread other(work, 100000);
  work(1);
  other.join();
  EXPECT_EQ(submitted, 10000u);
  EXPECT_GT(cancelled, 100u) << "most of them where threads run side by side";
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.running + stats.waiting + stats.waiting_tokens + stats.pages_used, 0u);
  // And it still works.
  auto sink = std::make_shared<Collector>();
  ASSERT_TRUE(engine->submit(request(9, 7, 10), sink).ok());
  EXPECT_EQ(sink->wait().reason, FinishReason::kLength);
}

TEST(Engine, RefusesAtOnceAndInWords) {
  auto engine = make({.pages = 4, .page_positions = 4, .step_time = std::chrono::milliseconds(1)},
                     {.scheduler = {.running_max = 1, .waiting_max = 2}});
  const auto refused = [&](EngineRequest r) {
    const auto id = engine->submit(std::move(r), std::make_shared<Collector>());
    return id.ok() ? Status() : id.status();
  };
  EXPECT_THAT(refused(request(17, 1, 1)).text(), HasSubstr("17 tokens, the context holds 16"));
  EXPECT_EQ(refused(request(0, 1, 1)).code(), Errc::kInvalidArgument);
  EngineRequest bad = request(3, 1, 1);
  bad.prompt[1] = 64;
  EXPECT_THAT(refused(std::move(bad)).text(), HasSubstr("token 64 is outside the vocabulary of 64"));
  bad = request(3, 1, 1);
  bad.sampling.min_p = 2;
  EXPECT_THAT(refused(std::move(bad)).text(), HasSubstr("min_p"));
  bad = request(3, 1, 1);
  bad.sampling.logit_bias = {{99, 1.0f}};
  EXPECT_EQ(refused(std::move(bad)).code(), Errc::kInvalidArgument);
  bad = request(3, 1, 1);
  bad.stops = {"x"};
  EXPECT_THAT(refused(std::move(bad)).text(), HasSubstr("tokenizer"));

  std::vector<std::shared_ptr<Collector>> sinks;
  Status last;
  for (uint64_t i = 0; i < 10 && last.ok(); ++i) {
    sinks.push_back(std::make_shared<Collector>());
    const auto id = engine->submit(request(4, i, 10), sinks.back());
    last = id.ok() ? Status() : id.status();
  }
  EXPECT_EQ(last.code(), Errc::kQueueFull);
  sinks.pop_back();
  for (auto& sink : sinks) EXPECT_EQ(sink->wait().reason, FinishReason::kLength);
  EXPECT_GE(engine->stats().refused, 1u);
}

TEST(Engine, TheContextEndsAText) {
  auto engine = make({.pages = 4, .page_positions = 4});
  auto sink = std::make_shared<Collector>();
  ASSERT_TRUE(engine->submit(request(10, 1, 1000), sink).ok());
  EXPECT_EQ(sink->wait().reason, FinishReason::kContext);
  EXPECT_EQ(sink->tokens().size(), 7u) << "16 positions, and the token behind the last of them";
}

TEST(Engine, DeadlinesEndRunningAndWaitingRequests) {
  ManualClock clock;
  auto engine = make({.step_time = std::chrono::microseconds(200)}, {.scheduler = {.running_max = 1}}, clock);
  auto running = std::make_shared<Collector>(), waiting = std::make_shared<Collector>();
  EngineRequest r = request(4, 1, 100000);
  r.deadline = clock.now() + std::chrono::seconds(5);
  running->hold_at(2);
  ASSERT_TRUE(engine->submit(std::move(r), running).ok());
  r = request(4, 2, 100000);
  r.deadline = clock.now() + std::chrono::seconds(3);
  ASSERT_TRUE(engine->submit(std::move(r), waiting).ok());
  running->wait_for_tokens(2);
  clock.advance(std::chrono::seconds(4));
  running->hold_at(5);
  EXPECT_EQ(waiting->wait().reason, FinishReason::kDeadline);
  EXPECT_FALSE(running->finished());
  clock.advance(std::chrono::seconds(4));
  running->release();
  EXPECT_EQ(running->wait().reason, FinishReason::kDeadline);
  EXPECT_EQ(running->wait().status.code(), Errc::kTimeout);
}

TEST(Engine, LostStepsAreDoneAgainWithTheSameTokens) {
  FakeChainOptions chain{.steps_max = 2};
  chain.fault = [](uint64_t step) { return step % 7 == 3 ? Status(Errc::kPeerLost, "gone") : Status(); };
  auto engine = make(chain);
  std::vector<std::shared_ptr<Collector>> sinks;
  for (uint64_t i = 0; i < 5; ++i) {
    sinks.push_back(std::make_shared<Collector>());
    ASSERT_TRUE(engine->submit(request(10, i, 25), sinks.back()).ok());
  }
  for (uint64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(sinks[i]->wait().reason, FinishReason::kLength);
    EXPECT_EQ(sinks[i]->tokens(), expected(chain, request(10, i, 25)));
  }
  EXPECT_GT(engine->stats().chain_resets, 0u);
}

TEST(Engine, AChainThatStaysAwayEndsRequestsWithItsReason) {
  FakeChainOptions chain;
  chain.fault = [](uint64_t) { return Status(Errc::kPeerLost, "the cable is out"); };
  auto engine = make(chain);
  auto sink = std::make_shared<Collector>();
  ASSERT_TRUE(engine->submit(request(3, 1, 5), sink).ok());
  EXPECT_EQ(sink->wait().reason, FinishReason::kError);
  EXPECT_THAT(sink->wait().status.text(), HasSubstr("cable"));
}

// Token 63 at this position ends whoever computes it. Prompts of the others have no such token there.
FakeChainOptions poisoned(size_t position, size_t* losses) {
  FakeChainOptions chain{.pages = 256, .steps_max = 2};
  chain.poison = [position, losses](const StepRequest& step) {
    for (const StepRow& row : step.rows)
      if (row.position == position && row.token == 63) {
        ++*losses;
        return Status(Errc::kPeerLost, "its node ended");
      }
    return Status();
  };
  return chain;
}

TEST(Engine, ARequestThatEndsItsNodesIsGivenUpAloneAndTheOthersGoOn) {
  for (const size_t killers : {1, 2}) {
    size_t losses = 0;
    const FakeChainOptions chain = poisoned(40, &losses);
    auto engine = make(chain);
    std::vector<std::shared_ptr<Collector>> sinks;
    const auto one = [&](uint64_t i) {
      EngineRequest r = request(50, i, 30);
      r.prompt[40] = i < killers ? 63 : 1;
      return r;
    };
    for (uint64_t i = 0; i < 6; ++i) {
      sinks.push_back(std::make_shared<Collector>());
      ASSERT_TRUE(engine->submit(one(i), sinks.back()).ok());
    }
    for (uint64_t i = 0; i < 6; ++i) {
      const FinishEvent& end = sinks[i]->wait();
      if (i < killers) {
        EXPECT_EQ(end.reason, FinishReason::kError);
        EXPECT_THAT(end.status.text(), HasSubstr("3 times, at the same place"));
        EXPECT_THAT(end.status.text(), HasSubstr("its node ended"));
      } else {
        EXPECT_EQ(end.reason, FinishReason::kLength) << i << ": " << end.status.text();
        EXPECT_EQ(sinks[i]->tokens(), expected(chain, one(i))) << i;
      }
    }
    EXPECT_LE(losses, killers * Suspects::kLossesMax) << "nodes that it costs";
  }
}

// The same token does no harm until a node is lost; then filling pages again ends whoever does it. That is
// this text's doing as much as reading it is: it does not cost more nodes, and the other goes on.
TEST(Engine, AFillThatEndsItsNodesIsItsRequestsDoing) {
  // The machine is lost when both texts have been read and go on: whether this thread is slow changes
  // nothing.
  const auto is_answer = [](const StepRow& row) { return row.position >= 52; };
  std::latch submitted(1);
  bool tripped = false;
  size_t losses = 0, fills = 0;
  FakeChainOptions chain = poisoned(40, &losses);
  chain.steps_max = 1;
  chain.on_resume = [] {};
  chain.poison = [&, poison = chain.poison](const StepRequest& step) {
    submitted.wait();
    if (!tripped) {
      tripped = std::ranges::count_if(step.rows, is_answer) == 2;
      return tripped ? Status(Errc::kPeerLost, "a machine is lost") : Status();
    }
    fills += !step.fill.empty();
    return poison(step);
  };
  auto engine = make(chain);
  const auto one = [&](uint64_t i) {
    EngineRequest r = request(50, i, 200);
    r.prompt[40] = i == 0 ? 63 : 1;
    return r;
  };
  std::vector<std::shared_ptr<Collector>> sinks;
  for (uint64_t i = 0; i < 2; ++i) {
    sinks.push_back(std::make_shared<Collector>());
    ASSERT_TRUE(engine->submit(one(i), sinks.back()).ok());
  }
  submitted.count_down();
  EXPECT_EQ(sinks[0]->wait().reason, FinishReason::kError);
  EXPECT_THAT(sinks[0]->wait().status.text(), HasSubstr("given up"));
  EXPECT_EQ(sinks[1]->wait().reason, FinishReason::kLength) << sinks[1]->wait().status.text();
  EXPECT_EQ(sinks[1]->tokens(), expected(chain, one(1)));
  engine.reset();
  EXPECT_GE(fills, 1u);
  EXPECT_LE(losses, Suspects::kLossesMax - 1) << "the first loss counted, too";
}

// Pages cannot be filled again, for whatever reason: after three tries the texts are read from their logs.
TEST(Engine, ARefillThatBreaksOffAgainAndAgainIsNotTriedForEver) {
  FakeChainOptions chain;
  size_t resumes = 0, fills = 0;
  bool tripped = false;
  chain.on_resume = [&] { ++resumes; };
  chain.fault = [&](uint64_t step) {
    return step == 9 && !std::exchange(tripped, true) ? Status(Errc::kPeerLost, "gone") : Status();
  };
  chain.submit_fault = [&](const StepRequest& step) {
    if (step.fill.empty()) return Status();
    ++fills;
    return Status(Errc::kPeerLost, "the way there is cut");
  };
  auto engine = make(chain);
  auto sink = std::make_shared<Collector>();
  ASSERT_TRUE(engine->submit(request(20, 3, 40), sink).ok());
  EXPECT_EQ(sink->wait().reason, FinishReason::kLength) << sink->wait().status.text();
  EXPECT_EQ(sink->tokens(), expected(chain, request(20, 3, 40)));
  engine.reset();
  EXPECT_TRUE(tripped);
  EXPECT_EQ(resumes, 3u);
  EXPECT_EQ(fills, 3u);
}

// A slow machine's step may take as long as health lets a stage stand still; nobody gives it up before.
TEST(Engine, AStepIsGivenUpByHealthBeforeTheEngineDoes) {
  struct Waits final : Chain {
    explicit Waits(std::atomic<int64_t>& l) : least(l) {}
    void note(Duration timeout) {
      for (int64_t was = least;
           timeout.count() < was && !least.compare_exchange_weak(was, timeout.count());) {
      }
    }
    const ChainInfo& info() const override { return inner.info(); }
    Status submit(const StepRequest& request) override { return inner.submit(request); }
    StepResult receive(Duration timeout) override {
      note(timeout);
      return inner.receive(timeout);
    }
    Status reset(uint64_t epoch, Duration timeout) override {
      note(timeout);
      return inner.reset(epoch, timeout);
    }
    void for_each(size_t count, FunctionRef<void(size_t)> fn) override { inner.for_each(count, fn); }
    void close() override {}
    std::atomic<int64_t>& least;
    FakeChain inner{FakeChainOptions{}};
  };
  std::atomic<int64_t> least{INT64_MAX};
  Engine engine(std::make_unique<Waits>(least), nullptr, {});
  auto sink = std::make_shared<Collector>();
  ASSERT_TRUE(engine.submit(request(5, 1, 5), sink).ok());
  EXPECT_EQ(sink->wait().reason, FinishReason::kLength);
  EXPECT_GT(Duration(least.load()), cluster::kStallMost);
  EXPECT_GT(cluster::TcpOptions().user_timeout, cluster::kStallMost);
}

// A chain that is lost for good at its `steps`th step.
FakeChainOptions mortal(FakeChainOptions options, uint64_t steps) {
  options.fault = [steps](uint64_t step) {
    return step >= steps ? Status(Errc::kPeerLost, "gone") : Status();
  };
  options.reset_fault = [](uint64_t epoch) {
    return epoch > 1 ? Status(Errc::kPeerLost, "gone for good") : Status();
  };
  return options;
}

TEST(Engine, ALostChainIsReplacedAndTextsGoOn) {
  const FakeChainOptions good{.pages = 60, .steps_max = 3};
  std::atomic<int> lost = 0;
  EngineOptions options;
  options.on_chain_lost = [&](const Status& status) {
    EXPECT_THAT(status.text(), HasSubstr("gone for good"));
    ++lost;
  };
  auto engine = make(mortal({.pages = 48, .steps_max = 2}, 9), options);
  std::vector<std::shared_ptr<Collector>> sinks;
  for (uint64_t i = 0; i < 10; ++i) {
    sinks.push_back(std::make_shared<Collector>());
    ASSERT_TRUE(engine->submit(request(10, i, 25), sinks.back()).ok());
  }
  while (lost == 0) std::this_thread::yield();
  EXPECT_TRUE(engine->stats().chain_lost);
  auto late = std::make_shared<Collector>();
  ASSERT_TRUE(engine->submit(request(7, 99, 5), late).ok()) << "waits with the others";
  engine->replace_chain(std::make_unique<FakeChain>(good));
  for (uint64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(sinks[i]->wait().reason, FinishReason::kLength);
    EXPECT_EQ(sinks[i]->tokens(), expected(good, request(10, i, 25)));
  }
  late->wait();
  EXPECT_EQ(late->tokens(), expected(good, request(7, 99, 5)));
  const EngineStats stats = engine->stats();
  EXPECT_EQ(lost, 1);
  EXPECT_EQ(stats.chains, 1u);
  EXPECT_EQ(stats.pages, 60u);
  EXPECT_FALSE(stats.chain_lost);
  EXPECT_EQ(stats.pages_used, 0u);
}

TEST(Engine, AWorkingChainIsReplacedBetweenSteps) {
  const FakeChainOptions chain{.steps_max = 2, .step_time = std::chrono::microseconds(200)};
  auto engine = make(chain);
  std::vector<std::shared_ptr<Collector>> sinks;
  for (uint64_t i = 0; i < 5; ++i) {
    sinks.push_back(std::make_shared<Collector>());
    ASSERT_TRUE(engine->submit(request(10, i, 60), sinks.back()).ok());
  }
  for (size_t i = 0; i < 6; ++i) {
    sinks[0]->wait_for_tokens(8 * i);
    engine->replace_chain(std::make_unique<FakeChain>(chain));
  }
  for (uint64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(sinks[i]->wait().reason, FinishReason::kLength);
    EXPECT_EQ(sinks[i]->tokens(), expected(chain, request(10, i, 60)));
  }
  auto last = std::make_shared<Collector>();  // behind the last chain, however late that was taken up
  ASSERT_TRUE(engine->submit(request(3, 9, 2), last).ok());
  last->wait();
  EXPECT_GT(engine->stats().chains, 0u);
}

TEST(Engine, TextsThatTheNextChainHasNoRoomForEndInWords) {
  // So long that neither ends by itself before the chain is replaced.
  FakeChainOptions large{.pages = 8192, .page_positions = 4}, small{.pages = 6, .page_positions = 4};
  large.step_time = std::chrono::microseconds(100);
  auto engine = make(large);
  auto text = std::make_shared<Collector>(), little = std::make_shared<Collector>();
  ASSERT_TRUE(engine->submit(request(30, 1, 100000), text).ok());
  ASSERT_TRUE(engine->submit(request(3, 2, 100000), little).ok());
  text->wait_for_tokens(2);
  little->wait_for_tokens(1);
  engine->replace_chain(std::make_unique<FakeChain>(small));
  EXPECT_EQ(text->wait().reason, FinishReason::kError);
  EXPECT_EQ(text->wait().status.code(), Errc::kOutOfMemory);
  EXPECT_THAT(text->wait().status.text(), HasSubstr("room for 24"));
  EXPECT_EQ(engine->context(), 24u);
  const FinishReason end = little->wait().reason;  // it may have grown too long itself
  EXPECT_TRUE(end == FinishReason::kContext || end == FinishReason::kError) << finish_reason_name(end);
  auto next = std::make_shared<Collector>();
  ASSERT_TRUE(engine->submit(request(5, 3, 4), next).ok());
  next->wait();
  EXPECT_EQ(next->tokens(), expected(small, request(5, 3, 4)));
}

TEST(Engine, PatienceForAnotherChainEnds) {
  ManualClock clock;
  std::atomic<bool> lost = false;
  EngineOptions options;
  options.on_chain_lost = [&](const Status&) { lost = true; };
  options.chain_wait_max = std::chrono::seconds(30);
  auto engine = make(mortal({}, 3), options, clock);
  auto first = std::make_shared<Collector>(), second = std::make_shared<Collector>();
  ASSERT_TRUE(engine->submit(request(3, 1, 50), first).ok());
  while (!lost) std::this_thread::yield();
  clock.advance(std::chrono::seconds(20));
  ASSERT_TRUE(engine->submit(request(3, 2, 5), second).ok());
  clock.advance(std::chrono::seconds(10));
  EXPECT_EQ(first->wait().status.code(), Errc::kPeerLost);
  EXPECT_FALSE(second->finished()) << "it has waited ten seconds only";
  engine->replace_chain(std::make_unique<FakeChain>(FakeChainOptions{}));
  EXPECT_EQ(second->wait().reason, FinishReason::kLength);
}

TEST(Engine, EmbeddingsAreMeansOfLengthOne) {
  auto engine = make({});
  EngineRequest r = request(50, 3, 5);
  r.kind = RequestKind::kEmbed;
  const auto ids = r.prompt;
  auto sink = std::make_shared<Collector>();
  ASSERT_TRUE(engine->submit(std::move(r), sink).ok());
  const FinishEvent& end = sink->wait();
  EXPECT_EQ(end.reason, FinishReason::kEmbedded);
  std::vector<double> sum(3);
  for (size_t p = 0; p < ids.size(); ++p)
    for (size_t i = 0; i < 3; ++i) sum[i] += (ids[p] + 1) * static_cast<double>(i + p + 1);
  const double length = std::hypot(sum[0], sum[1], sum[2]);
  ASSERT_EQ(end.embedding.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_FLOAT_EQ(end.embedding[i], static_cast<float>(sum[i] / length));
  EXPECT_TRUE(sink->events().empty());
}

TEST(Engine, LogprobsOfTokensAndOfThePrompt) {
  const FakeChainOptions chain;
  auto engine = make(chain);
  for (const bool cached : {false, true}) {
    EngineRequest r = request(20, 3, 4);
    r.top_logprobs = 3;
    r.prompt_logprobs = true;
    auto tokens = r.prompt;
    auto sink = std::make_shared<Collector>();
    ASSERT_TRUE(engine->submit(std::move(r), sink).ok());
    sink->wait();
    ASSERT_EQ(sink->prompt().size(), 19u) << cached;
    ASSERT_EQ(sink->events().size(), 4u);
    model::Logprobs logprobs;
    for (size_t i = 1; i < 24; ++i) {
      const TokenEvent& event = i < 20 ? sink->prompt()[i - 1] : sink->events()[i - 20];
      if (i >= 20) tokens.push_back(event.token);
      const auto logits = FakeChain::logits_after(chain, std::span(tokens).first(i));
      logprobs.set(logits);
      EXPECT_EQ(event.token, tokens[i]);
      EXPECT_EQ(event.logprob, logprobs.of(event.token));
      ASSERT_EQ(event.top.size(), 3u);
      EXPECT_GE(event.top[0].logprob, event.top[1].logprob);
      EXPECT_GE(event.top[2].logprob, -20);
    }
  }
}

// Allows tokens of one parity, and nothing after `length` of them.
class Parity final : public model::TokenConstraint {
 public:
  explicit Parity(size_t length) : left_(length) {}
  void mask(std::span<uint64_t> allowed) override {
    for (uint64_t& word : allowed) word = left_ == 0 ? 0 : even_ ? 0x5555555555555555u : 0xaaaaaaaaaaaaaaaau;
  }
  bool accept(int32_t token) override {
    if (left_ == 0 || (token % 2 == 0) != even_) return false;
    even_ = !even_;
    --left_;
    return true;
  }
  bool can_end() const override { return left_ == 0; }
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Parity>(*this); }

 private:
  size_t left_;
  bool even_ = true;
};

TEST(Engine, AConstraintRulesEveryToken) {
  for (const bool speculate : {false, true}) {
    auto engine = make({.loops = true}, {.scheduler = {.speculate = speculate}});
    auto sink = std::make_shared<Collector>();
    EngineRequest r = request(6, 2, 1000, 0);
    r.constraint = std::make_unique<Parity>(60);
    ASSERT_TRUE(engine->submit(std::move(r), sink).ok());
    EXPECT_EQ(sink->wait().reason, FinishReason::kEndOfText);
    ASSERT_EQ(sink->tokens().size(), 60u);
    for (size_t i = 0; i < 60; ++i) EXPECT_EQ(static_cast<size_t>(sink->tokens()[i]) % 2, i % 2);
  }
}

// The same, but its masks wait until they are let go.
class SlowParity final : public model::TokenConstraint {
 public:
  SlowParity(size_t length, std::shared_ptr<std::atomic<bool>> open)
      : inner_(length), open_(std::move(open)) {}
  void mask(std::span<uint64_t> allowed) override {
    while (!*open_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    inner_.mask(allowed);
  }
  bool accept(int32_t token) override { return inner_.accept(token); }
  bool can_end() const override { return inner_.can_end(); }
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<SlowParity>(*this); }

 private:
  Parity inner_;
  std::shared_ptr<std::atomic<bool>> open_;
};

TEST(Engine, SlowRulesHoldUpTheirOwnRequestOnly) {
  const FakeChainOptions chain;
  std::vector<int32_t> alone;
  {
    auto engine = make(chain);
    auto sink = std::make_shared<Collector>();
    EngineRequest r = request(6, 2, 1000, 0.8f);
    r.constraint = std::make_unique<Parity>(12);
    ASSERT_TRUE(engine->submit(std::move(r), sink).ok());
    sink->wait();
    alone = sink->tokens();
  }
  auto engine = make(chain);
  const auto open = std::make_shared<std::atomic<bool>>(false);
  auto slow = std::make_shared<Collector>();
  EngineRequest ruled = request(6, 2, 1000, 0.8f);
  ruled.constraint = std::make_unique<SlowParity>(12, open);
  ASSERT_TRUE(engine->submit(std::move(ruled), slow).ok());
  // Others come, are served and go while the first mask is not there.
  for (uint64_t i = 0; i < 3; ++i) {
    auto sink = std::make_shared<Collector>();
    ASSERT_TRUE(engine->submit(request(9, 7 + i, 20), sink).ok());
    EXPECT_EQ(sink->wait().reason, FinishReason::kLength);
    EXPECT_EQ(sink->tokens(), expected(chain, request(9, 7 + i, 20)));
  }
  EXPECT_TRUE(slow->tokens().empty());
  *open = true;
  EXPECT_EQ(slow->wait().reason, FinishReason::kEndOfText);
  EXPECT_EQ(slow->tokens(), alone) << "when a mask comes does not matter";
}

TEST(Engine, TextsThatWaitForTheirMasksDoNotHoldUpWhoComes) {
  ManualClock clock;
  const TimePoint began = clock.now();
  FakeChainOptions chain;
  // Patience with masks is counted in steps: the first one takes an hour.
  chain.fault = [&](uint64_t) {
    if (clock.now() == began) clock.advance(std::chrono::hours(1));
    return Status();
  };
  auto engine = make(chain, {}, clock);
  const auto open = std::make_shared<std::atomic<bool>>(false);
  auto slow = std::make_shared<Collector>(), other = std::make_shared<Collector>();
  EngineRequest ruled = request(6, 2, 1000);
  ruled.constraint = std::make_unique<SlowParity>(12, open);
  ASSERT_TRUE(engine->submit(std::move(ruled), slow).ok());
  while (clock.now() == began) std::this_thread::yield();
  ASSERT_TRUE(engine->submit(request(9, 7, 20), other).ok());
  EXPECT_EQ(other->wait().reason, FinishReason::kLength);  // for an hour, if the step waited for the mask
  EXPECT_TRUE(slow->tokens().empty());
  *open = true;
  EXPECT_EQ(slow->wait().reason, FinishReason::kEndOfText);
}

TEST(Engine, ARequestMayEndWhileItsMaskIsComputed) {
  auto engine = make({});
  const auto open = std::make_shared<std::atomic<bool>>(false);
  auto sink = std::make_shared<Collector>();
  EngineRequest ruled = request(6, 2, 1000);
  ruled.constraint = std::make_unique<SlowParity>(12, open);
  const auto id = engine->submit(std::move(ruled), sink);
  ASSERT_TRUE(id.ok());
  engine->cancel(*id);
  EXPECT_EQ(sink->wait().reason, FinishReason::kCancelled);
  *open = true;
}

// Allows `length` tokens, then nothing, though the text is not whole.
class DeadEnd final : public model::TokenConstraint {
 public:
  explicit DeadEnd(size_t length) : left_(length) {}
  void mask(std::span<uint64_t> allowed) override {
    for (uint64_t& word : allowed) word = left_ == 0 ? 0 : ~uint64_t{0};
  }
  bool accept(int32_t) override { return left_-- > 0; }
  bool can_end() const override { return false; }
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<DeadEnd>(*this); }

 private:
  size_t left_;
};

TEST(Engine, ADeadEndOfItsRulesIsAnErrorWithAReason) {
  auto engine = make({});
  auto sink = std::make_shared<Collector>();
  EngineRequest r = request(6, 2, 1000);
  r.constraint = std::make_unique<DeadEnd>(5);
  ASSERT_TRUE(engine->submit(std::move(r), sink).ok());
  const FinishEvent& end = sink->wait();
  EXPECT_EQ(end.reason, FinishReason::kError);
  EXPECT_EQ(end.status.code(), Errc::kUnsupported);
  EXPECT_THAT(end.status.text(), HasSubstr("after 5 tokens no token of the model's vocabulary"));
}

TEST(Engine, DrainWaitsThenCutsOff) {
  auto engine = make({.step_time = std::chrono::microseconds(100)});
  auto sink = std::make_shared<Collector>();
  ASSERT_TRUE(engine->submit(request(4, 1, 50), sink).ok());
  EXPECT_TRUE(engine->drain(SystemClock::instance().now() + std::chrono::seconds(60)));
  EXPECT_EQ(sink->wait().reason, FinishReason::kLength);
  const auto late = engine->submit(request(4, 1, 5), std::make_shared<Collector>());
  EXPECT_EQ(late.status().code(), Errc::kCancelled);

  auto endless = make({.pages = 4096, .step_time = std::chrono::microseconds(100)});
  sink = std::make_shared<Collector>();
  ASSERT_TRUE(endless->submit(request(4, 1, 1000000), sink).ok());
  sink->wait_for_tokens(1);
  EXPECT_FALSE(endless->drain(SystemClock::instance().now()));
  EXPECT_EQ(sink->wait().reason, FinishReason::kCancelled);
}

TEST(Engine, StopEndsEverything) {
  std::vector<std::shared_ptr<Collector>> sinks;
  {
    auto engine =
        make({.pages = 4096, .step_time = std::chrono::microseconds(100)}, {.scheduler = {.running_max = 2}});
    for (uint64_t i = 0; i < 5; ++i) {
      sinks.push_back(std::make_shared<Collector>());
      ASSERT_TRUE(engine->submit(request(4, i, 100000), sinks.back()).ok());
    }
  }
  for (auto& sink : sinks) EXPECT_TRUE(sink->finished());
  for (auto& sink : sinks) EXPECT_EQ(sink->wait().reason, FinishReason::kCancelled);
}

}  // namespace
}  // namespace butterfly::runtime
