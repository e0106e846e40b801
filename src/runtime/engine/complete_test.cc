// One text for a caller that waits: where it ends, what is refused, and that it is the plain loop's.
#include "runtime/engine/complete.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "runtime/engine/local_engine.h"
#include "runtime/testing/models.h"
#include "runtime/testing/plain_generate.h"

namespace butterfly::runtime {
namespace {

using ::testing::HasSubstr;
using testing::plain_generate;
using testing::RandomModel;

struct CompleteTest : ::testing::Test {
  Completion ask(const RequestOptions& options, const TextSink& to) {
    EngineRequest request(options);
    request.prompt = prompt;
    return complete(*engine, std::move(request), to);
  }
  static RequestOptions greedy(size_t tokens) {
    RequestOptions options;
    options.sampling.temperature = 0;
    options.tokens_max = tokens;
    options.ignore_eos = true;
    return options;
  }
  RandomModel model{DType::kQ8_0};
  std::unique_ptr<Engine> engine =
      make_local_engine(*model.loaded().model, model.loaded().compute, one_stream(64));
  std::vector<int32_t> prompt = {1, 40, 50};
  std::string text;
  TextSink sink = [this](std::string_view piece) {
    text += piece;
    return true;
  };
};

TEST_F(CompleteTest, EndsWhereThePlainLoopEnds) {
  CachedLayers layers(*model.loaded().model, model.loaded().pool, {.positions = 64});
  RequestOptions stops = greedy(1000);
  stops.stops = {plain_generate(layers, prompt, stops).text.substr(5, 4)};
  RequestOptions warm = greedy(20);
  warm.sampling.temperature = 0.9f;
  warm.sampling.seed = 3;
  for (const RequestOptions& options : {greedy(5), greedy(1000), stops, warm}) {
    const testing::PlainText want = plain_generate(layers, prompt, options);
    text.clear();
    const Completion found = ask(options, sink);
    EXPECT_EQ(found.tokens, want.tokens);
    EXPECT_EQ(text, want.text);
    EXPECT_EQ(found.finish.reason, want.reason) << finish_reason_name(found.finish.reason);
  }
  EXPECT_EQ(ask(greedy(1000), sink).tokens.size(), 64u - 3 + 1)
      << "the last token needs no room in the cache";
}

TEST_F(CompleteTest, ASinkThatHasEnoughEndsIt) {
  const Completion cut = ask(greedy(1000), [](std::string_view piece) { return piece.empty(); });
  EXPECT_EQ(cut.finish.reason, FinishReason::kCancelled);
  EXPECT_EQ(ask(greedy(3), sink).tokens.size(), 3u) << "the engine goes on";
  EXPECT_THROW(ask(greedy(1000), [](std::string_view) -> bool { fail(Errc::kIo, "the pipe is gone"); }),
               Error);
  EXPECT_EQ(ask(greedy(3), sink).tokens.size(), 3u);
}

TEST_F(CompleteTest, WhatWasReadBeforeIsNotReadAgain) {
  const Completion first = ask(greedy(40), sink);
  prompt.insert(prompt.end(), first.tokens.begin(), first.tokens.end());
  CachedLayers layers(*model.loaded().model, model.loaded().pool, {.positions = 64});
  const Completion second = ask(greedy(8), sink);
  EXPECT_EQ(second.tokens, plain_generate(layers, prompt, greedy(8)).tokens);
  EXPECT_GT(second.finish.usage.cached_tokens, 0u);
}

TEST_F(CompleteTest, APromptThatDoesNotFitIsRefusedWithBothNumbers) {
  prompt.assign(65, 40);
  try {
    ask(greedy(1), sink);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("65 tokens, the context holds 64"));
  }
  prompt.clear();
  EXPECT_THROW(ask(greedy(1), sink), Error);
}

}  // namespace
}  // namespace butterfly::runtime
