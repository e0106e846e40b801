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

constexpr size_t kRequests = 16;

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

class EngineBits : public ::testing::TestWithParam<DType> {};

TEST_P(EngineBits, CompanyReuseGuessesAndShortageChangeNothing) {
  RandomModel model(GetParam());
  EngineOptions plain;
  plain.scheduler.reuse_prefix = plain.scheduler.speculate = false;
  const std::vector<Bits> want = run(model, {.engine = plain}, false);

  EXPECT_EQ(run(model, {.engine = plain}, true), want) << "16 at once";
  EngineStats stats;
  EXPECT_EQ(run(model, {.engine = {}}, false, &stats), want) << "one after the other with reuse and guesses";
  EXPECT_GT(stats.cached_tokens, 0u);
  EXPECT_GT(stats.draft_tokens, 0u);
  EXPECT_EQ(run(model, {.engine = {}}, true), want) << "all of it at once";
  // Room for about four of the sixteen: the others wait.
  EXPECT_EQ(run(model, {.layers = {.positions = 480, .rows_max = 40}}, true), want) << "and few pages";
}

// Without a turn for each step the pool would end the program: run() from two threads.
TEST_P(EngineBits, TwoEnginesOnOnePoolTakeTurns) {
  RandomModel model(GetParam());
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
  RandomModel model(GetParam());
  const auto run_crowd = [&](size_t positions, EngineStats* stats) {
    const auto engine = make_local_engine(*model.loaded().model, model.loaded().compute,
                                          {.layers = {.positions = positions}});
    std::vector<std::shared_ptr<Collector>> sinks;
    for (size_t i = 0; i < 6; ++i) {
      EngineRequest r = mixed_request(i);
      r.prompt.resize(5 + i);
      r.tokens_max = 110;
      sinks.push_back(std::make_shared<Collector>());
      sinks.back()->hold(i == 0);
      EXPECT_TRUE(engine->submit(std::move(r), sinks.back()).ok());
    }
    sinks[0]->hold(false);
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
  RandomModel model(GetParam());
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
  RandomModel model(GetParam());
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
  RandomModel model(GetParam());
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

INSTANTIATE_TEST_SUITE_P(Types, EngineBits, ::testing::Values(DType::kQ8_0, DType::kQ4_0),
                         [](const auto& test) { return std::string(dtype_name(test.param)); });

}  // namespace
}  // namespace butterfly::runtime
