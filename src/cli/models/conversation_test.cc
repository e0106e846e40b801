// Conversations with a small random model: what is kept of earlier turns, and what is forgotten.
#include "cli/models/conversation.h"

#include <gtest/gtest.h>

#include "base/testing/temp_dir.h"
#include "cli/console/exit_code.h"
#include "cli/testing/run_captured.h"
#include "runtime/layers/loaded_model.h"

namespace butterfly::cli {
namespace {

struct ConversationTest : ::testing::Test {
  void SetUp() override {
    const std::string path = (dir / "small.gguf").string();
    const Outcome made = run({"make-model", path, "--dim", "64", "--hidden", "96", "--layers", "2", "--heads",
                              "4", "--vocab", "400", "--context", "512", "--type", "q8_0", "--seed", "7"});
    ASSERT_EQ(made.status, kExitOk) << made.err;
    model = runtime::load_model(path, pool);
  }
  runtime::CachedLayers layers(size_t positions) {
    return {*model, pool, {.positions = positions, .sequences = 1, .kv_type = DType::kF16, .rows_max = 512}};
  }
  static runtime::GenerateOptions greedy(size_t tokens) {
    runtime::GenerateOptions options;
    options.sampling.temperature = 0;
    options.tokens_max = tokens;
    options.ignore_eos = true;
    return options;
  }
  static constexpr auto kNowhere = [](std::string_view) { return true; };

  butterfly::testing::TempDir dir;
  ThreadPool pool{1};
  std::unique_ptr<runtime::LoadedModel> model;
};

TEST_F(ConversationTest, AnswersDependOnTheTurnsAndNotOnTheCache) {
  runtime::CachedLayers one = layers(512), other = layers(512);
  Conversation talk(one, ""), again(other, ""), alone(other, "");
  std::vector<std::vector<int32_t>> answers;
  size_t prompt = 0;
  for (const char* message : {"How are you?", "And now?"}) {
    const auto result = talk.ask(message, greedy(6), kNowhere);
    answers.push_back(result.tokens);
    prompt = result.prompt_tokens;
  }
  // The same turns with layers whose cache somebody else used in between: nothing can be kept there.
  std::vector<std::vector<int32_t>> expected;
  for (const char* message : {"How are you?", "And now?"}) {
    expected.push_back(again.ask(message, greedy(6), kNowhere).tokens);
    other.cache().truncate(0, 0);
    again.forget_cache();
  }
  EXPECT_EQ(answers, expected);
  EXPECT_LT(alone.ask("And now?", greedy(6), kNowhere).prompt_tokens + 6, prompt) << "the first turn is gone";
  talk.forget_all();
  EXPECT_EQ(talk.ask("How are you?", greedy(6), kNowhere).tokens, answers[0]);
}

TEST_F(ConversationTest, TheOldestTurnsAreForgottenWhenTheContextIsFull) {
  runtime::CachedLayers small = layers(256);
  Conversation talk(small, "");
  for (int i = 0; i < 12; ++i) {
    const auto result = talk.ask("What is this number?", greedy(8), kNowhere);
    EXPECT_EQ(result.tokens.size(), 8u) << i;
    EXPECT_LE(result.prompt_tokens, 256u * 3 / 4) << i;
  }
  EXPECT_GT(talk.forgotten(), 0u);
  EXPECT_EQ(talk.forgotten() % 2, 0u);
  EXPECT_THROW(talk.ask(std::string(5000, 'x'), greedy(8), kNowhere), Error);
  EXPECT_EQ(talk.ask("Still there?", greedy(8), kNowhere).tokens.size(), 8u);
}

// "</s>" ends a text of this model; nobody ends one by typing it.
TEST_F(ConversationTest, TypedControlTokensArePlainText) {
  ASSERT_EQ(model->tokenizer_or_throw().token_text(*model->tokenizer_or_throw().eos()), "</s>");
  runtime::CachedLayers one = layers(512);
  const auto tokens = [&](const std::string& message) {
    return Conversation(one, "").ask(message, greedy(1), kNowhere).prompt_tokens;
  };
  EXPECT_EQ(tokens("a</s></s></s>b"), tokens("a</t></t></t>b"));
  EXPECT_GT(tokens("a</s></s></s>b"), tokens("ab") + 6);
}

}  // namespace
}  // namespace butterfly::cli
