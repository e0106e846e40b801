// Real models: tokens, logprobs and embeddings of a request have the same bits however the engine came to
// them.
#include <gtest/gtest.h>

#include <bit>
#include <thread>

#include "runtime/engine/local_engine.h"
#include "runtime/engine/testing/mixed_requests.h"
#include "runtime/testing/plain_generate.h"

namespace butterfly::runtime {
namespace {

using testing::Bits;
using testing::bits_of;
using testing::Collector;
using testing::mixed_request;
using testing::RandomModel;

constexpr size_t kRequests = 12;

std::vector<Bits> run(RandomModel& model, const LocalEngineOptions& options, bool together,
                      EngineStats* stats = nullptr) {
  const auto engine = make_local_engine(*model.loaded().model, model.loaded().compute, options);
  std::vector<std::shared_ptr<Collector>> sinks;
  for (size_t i = 0; i < kRequests; ++i) {
    sinks.push_back(std::make_shared<Collector>());
    const auto id = engine->submit(mixed_request(i), sinks.back());
    EXPECT_TRUE(id.ok()) << id.status().text();
    if (!together) sinks.back()->wait();
  }
  std::vector<Bits> bits;
  for (auto& sink : sinks) {
    EXPECT_EQ(sink->wait().reason, FinishReason::kLength);
    bits.push_back(bits_of(*sink));
  }
  if (stats != nullptr) *stats = engine->stats();
  return bits;
}

struct Kind {
  std::string_view architecture;
  DType type;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.architecture; }

class EngineBits : public ::testing::TestWithParam<Kind> {
 protected:
  RandomModel model{GetParam().type, 2, 7, GetParam().architecture};
};

TEST_P(EngineBits, CompanyReuseGuessesAndShortageChangeNothing) {
  EngineOptions plain;
  plain.scheduler.reuse_prefix = plain.scheduler.speculate = false;
  const std::vector<Bits> want = run(model, {.engine = plain}, false);

  EXPECT_EQ(run(model, {.engine = plain}, true), want) << "all at once";
  EngineStats stats;
  EXPECT_EQ(run(model, {.engine = {}}, false, &stats), want) << "one after the other with reuse and guesses";
  EXPECT_GT(stats.cached_tokens, 0u);
  if (GetParam().architecture == "llama") {
    EXPECT_GT(stats.draft_tokens, 0u);
  }
  EXPECT_EQ(run(model, {.engine = {}}, true), want) << "all of it at once";
  // Room for about four of the sixteen: the others wait.
  EXPECT_EQ(run(model, {.layers = {.positions = 480, .rows_max = 40}}, true), want) << "and few pages";
}

// Without a turn for each step the pool would end the program: run() from two threads.
TEST_P(EngineBits, TwoEnginesOnOnePoolTakeTurns) {
  const std::vector<Bits> want = run(model, {}, false);
  std::vector<std::vector<Bits>> got(2);
  {
    std::vector<std::jthread> both;
    for (std::vector<Bits>& bits : got) both.emplace_back([&] { bits = run(model, {}, true); });
  }
  EXPECT_EQ(got[0], want);
  EXPECT_EQ(got[1], want);
}

TEST_P(EngineBits, WhoLosesItsPlaceGoesOnAsIfNothingHadHappened) {
  const auto run_crowd = [&](size_t positions, EngineStats* stats) {
    const auto engine = make_local_engine(*model.loaded().model, model.loaded().compute,
                                          {.layers = {.positions = positions}});
    std::vector<std::shared_ptr<Collector>> sinks;
    for (size_t i = 0; i < 6; ++i) {
      EngineRequest r = mixed_request(i);
      r.prompt.resize(5 + i);
      r.tokens_max = 110;
      sinks.push_back(std::make_shared<Collector>());
      if (i == 0) sinks.back()->hold_at(1);
      EXPECT_TRUE(engine->submit(std::move(r), sinks.back()).ok());
    }
    sinks[0]->release();
    std::vector<Bits> bits;
    for (auto& sink : sinks) {
      EXPECT_EQ(sink->wait().reason, FinishReason::kLength);
      bits.push_back(bits_of(*sink));
    }
    *stats = engine->stats();
    return bits;
  };
  EngineStats roomy, crowded;
  const auto want = run_crowd(4096, &roomy);
  EXPECT_EQ(roomy.preemptions, 0u);
  EXPECT_EQ(run_crowd(10 * 32, &crowded), want) << "texts of four pages in ten";
  EXPECT_GT(crowded.preemptions, 0u);
  EXPECT_EQ(crowded.pages_used, 0u);
}

TEST_P(EngineBits, EqualsThePlainLoop) {
  for (size_t i : {0, 1, 5}) {
    const auto engine = make_local_engine(*model.loaded().model, model.loaded().compute);
    auto sink = std::make_shared<Collector>();
    ASSERT_TRUE(engine->submit(mixed_request(i), sink).ok());
    sink->wait();
    CachedLayers layers(*model.loaded().model, model.loaded().pool, {});
    const auto result = testing::plain_generate(layers, mixed_request(i).prompt, mixed_request(i));
    EXPECT_EQ(sink->tokens(), result.tokens);
    EXPECT_EQ(sink->text(), result.text);
  }
}

TEST_P(EngineBits, StopStringsEndTextsAsInThePlainLoop) {
  const auto engine = make_local_engine(*model.loaded().model, model.loaded().compute);
  auto whole = std::make_shared<Collector>();
  ASSERT_TRUE(engine->submit(mixed_request(1), whole).ok());
  whole->wait();
  const std::string text = whole->text();
  ASSERT_GT(text.size(), 12u);
  const std::string stop = text.substr(text.size() / 2, 3);  // spans tokens
  auto sink = std::make_shared<Collector>();
  EngineRequest r = mixed_request(1);
  r.stops = {"never there", stop};
  ASSERT_TRUE(engine->submit(std::move(r), sink).ok());
  const FinishEvent& end = sink->wait();
  EXPECT_EQ(end.reason, FinishReason::kStopString);
  EXPECT_EQ(end.stop, stop);
  EXPECT_EQ(sink->text(), text.substr(0, text.find(stop)));
  EXPECT_LT(sink->tokens().size(), whole->tokens().size());
}

TEST_P(EngineBits, EmbeddingsDoNotDependOnPiecesOrCompany) {
  const auto embed = [&](size_t rows_max, size_t company) {
    const auto engine =
        make_local_engine(*model.loaded().model, model.loaded().compute, {.layers = {.rows_max = rows_max}});
    std::vector<std::shared_ptr<Collector>> sinks;
    for (size_t i = 0; i <= company; ++i) {
      sinks.push_back(std::make_shared<Collector>());
      EngineRequest r = mixed_request(i);
      if (i == 0) r.kind = RequestKind::kEmbed;
      EXPECT_TRUE(engine->submit(std::move(r), sinks.back()).ok());
    }
    for (auto& sink : sinks) sink->wait();
    std::vector<uint32_t> bits;
    for (float value : sinks[0]->wait().embedding) bits.push_back(std::bit_cast<uint32_t>(value));
    return bits;
  };
  const auto want = embed(512, 0);
  EXPECT_EQ(want.size(), model.loaded().model->config.dim);
  EXPECT_EQ(embed(16, 0), want);
  EXPECT_EQ(embed(24, 5), want);
}

// A window is cut where the cache is much larger than it.
TEST_P(EngineBits, ALargeCacheChangesNothing) {
  EngineOptions plain;
  plain.scheduler.reuse_prefix = plain.scheduler.speculate = false;
  const std::vector<Bits> want = run(model, {.engine = plain, .layers = {.positions = 1024}}, false);
  EngineStats stats;
  EXPECT_EQ(run(model, {.engine = {}, .layers = {.positions = 16384}}, false, &stats), want);
  EXPECT_GT(stats.cached_tokens, 0u);
  EXPECT_EQ(run(model, {.engine = {}, .layers = {.positions = 16384, .rows_max = 24}}, true), want);
}

// Texts that turn in a circle, for a while: most guesses are right, and some are not.
TEST_P(EngineBits, RightAndWrongGuessesChangeNothing) {
  const auto texts = [&](bool speculate, EngineStats& stats) {
    EngineOptions options;
    options.scheduler.speculate = speculate;
    const auto engine = make_local_engine(*model.loaded().model, model.loaded().compute, {.engine = options});
    std::vector<Bits> bits;
    for (const int32_t token : {5, 77}) {
      EngineRequest r = mixed_request(1);
      r.tokens_max = 150;
      r.sampling.logit_bias = {{token, token == 5 ? 1000.0f : 3.0f}};
      r.sampling.temperature = 0.5f;
      auto sink = std::make_shared<Collector>();
      EXPECT_TRUE(engine->submit(std::move(r), sink).ok());
      EXPECT_EQ(sink->wait().reason, FinishReason::kLength) << sink->wait().status.text();
      bits.push_back(bits_of(*sink));
    }
    stats = engine->stats();
    return bits;
  };
  EngineStats plain, guessed;
  EXPECT_EQ(texts(true, guessed), texts(false, plain));
  EXPECT_EQ(plain.draft_tokens, 0u);
  EXPECT_GT(guessed.draft_accepted, 0u);
  EXPECT_EQ(guessed.chain_resets, 0u);
}

struct Turn {
  std::vector<int32_t> answer;
  uint64_t cached = 0, rows = 0;  // of this turn
};
Turn turn(Engine& engine, std::vector<int32_t> prompt, size_t tokens) {
  EngineRequest r;
  r.prompt = std::move(prompt);
  r.tokens_max = tokens;
  r.ignore_eos = true;
  r.sampling.temperature = 0.8f;
  r.sampling.seed = 3;
  const EngineStats before = engine.stats();
  auto sink = std::make_shared<Collector>();
  EXPECT_TRUE(engine.submit(std::move(r), sink).ok());
  EXPECT_EQ(sink->wait().reason, FinishReason::kLength) << sink->wait().status.text();
  const EngineStats after = engine.stats();
  return {sink->tokens(), after.cached_tokens - before.cached_tokens, after.rows - before.rows};
}

// As a conversation goes on, or as it goes on without what was only thought: of what was read before at most
// a page is read again.
TEST_P(EngineBits, ASecondTurnReadsOnlyWhatIsNew) {
  LocalEngineOptions options{.engine = {}, .layers = {.positions = 4096}};
  options.engine.scheduler.running_max = 4;
  options.engine.scheduler.speculate = false;
  const auto engine = make_local_engine(*model.loaded().model, model.loaded().compute, options);
  const auto first = testing::some_tokens(100, 320);
  const Turn opening = turn(*engine, first, 50);
  EXPECT_EQ(opening.cached, 0u);
  auto second = first;
  second.insert(second.end(), opening.answer.begin(), opening.answer.end());
  const size_t known = second.size();
  const auto more = testing::some_tokens(25, 320);
  second.insert(second.end(), more.rbegin(), more.rend());
  auto other = first;
  other.insert(other.end(), more.rbegin(), more.rend());

  const Turn going_on = turn(*engine, second, 10);
  EXPECT_EQ(going_on.cached, (known - 1) / 32 * 32);
  EXPECT_EQ(going_on.rows, second.size() - going_on.cached + 9);
  const Turn without = turn(*engine, other, 10);
  EXPECT_EQ(without.cached, 99 / 32 * 32u) << "the end of the first prompt";
  // And nothing of that shows.
  options.engine.scheduler.reuse_prefix = false;
  const auto fresh = make_local_engine(*model.loaded().model, model.loaded().compute, options);
  EXPECT_EQ(turn(*fresh, second, 10).answer, going_on.answer);
  EXPECT_EQ(turn(*fresh, other, 10).answer, without.answer);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EngineBits,
                         ::testing::Values(Kind{"llama", DType::kQ8_0}, Kind{"llama", DType::kQ4_0},
                                           Kind{"gemma3", DType::kQ8_0}, Kind{"qwen35", DType::kQ8_0},
                                           Kind{"qwen35moe", DType::kQ4_0}),
                         [](const auto& test) {
                           return std::string(test.param.architecture) + "_" +
                                  std::string(dtype_name(test.param.type));
                         });

}  // namespace
}  // namespace butterfly::runtime
