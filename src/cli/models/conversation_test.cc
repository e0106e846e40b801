// Conversations with a small random model: what is kept of earlier turns, and what is forgotten.
#include "cli/models/conversation.h"

#include <gtest/gtest.h>

#include "base/testing/temp_dir.h"
#include "cli/console/exit_code.h"
#include "cli/testing/run_captured.h"
#include "runtime/engine/local_engine.h"

namespace butterfly::cli {
namespace {

struct ConversationTest : ::testing::Test {
  void SetUp() override {
    const std::string path = (dir / "small.gguf").string();
    const Outcome made = run({"make-model", path, "--dim", "64", "--hidden", "96", "--layers", "2", "--heads",
                              "4", "--vocab", "400", "--context", "512", "--type", "q8_0", "--seed", "7"});
    ASSERT_EQ(made.status, kExitOk) << made.err;
    model = runtime::load_model(path, compute.take().pool());
  }
  std::unique_ptr<runtime::Engine> engine(size_t context) {
    return runtime::make_local_engine(*model, compute, runtime::one_stream(context));
  }
  const model::Tokenizer& tokenizer() const { return model->tokenizer_or_throw(); }
  static runtime::RequestOptions greedy(size_t tokens) {
    runtime::RequestOptions options;
    options.sampling.temperature = 0;
    options.tokens_max = tokens;
    options.ignore_eos = true;
    return options;
  }
  static constexpr auto kNowhere = [](std::string_view) { return true; };

  butterfly::testing::TempDir dir;
  Compute compute{1};
  std::unique_ptr<runtime::LoadedModel> model;
};

TEST_F(ConversationTest, AnswersDependOnTheTurnsAndNotOnTheCache) {
  const auto one = engine(512), other = engine(512);
  Conversation talk(*one, tokenizer(), ""), again(*other, tokenizer(), ""), alone(*other, tokenizer(), "");
  runtime::RequestOptions nothing_kept = greedy(6);
  nothing_kept.reuse_prefix = false;
  std::vector<std::vector<int32_t>> answers, expected;
  runtime::Usage usage;
  for (const char* message : {"How are you?", "And now?"}) {
    const auto done = talk.ask(message, greedy(6), kNowhere);
    answers.push_back(done.tokens);
    usage = done.finish.usage;
    expected.push_back(again.ask(message, nothing_kept, kNowhere).tokens);
  }
  EXPECT_EQ(answers, expected);
  EXPECT_GT(usage.cached_tokens, 0u) << "the first turn was read again";
  EXPECT_LT(alone.ask("And now?", greedy(6), kNowhere).finish.usage.prompt_tokens + 6, usage.prompt_tokens)
      << "the first turn is gone";
  talk.forget_all();
  EXPECT_EQ(talk.ask("How are you?", greedy(6), kNowhere).tokens, answers[0]);
}

TEST_F(ConversationTest, TheOldestTurnsAreForgottenWhenTheContextIsFull) {
  const auto small = engine(256);
  Conversation talk(*small, tokenizer(), "");
  for (int i = 0; i < 12; ++i) {
    const auto result = talk.ask("What is this number?", greedy(8), kNowhere);
    EXPECT_EQ(result.tokens.size(), 8u) << i;
    EXPECT_LE(result.finish.usage.prompt_tokens, 256u * 3 / 4) << i;
  }
  EXPECT_GT(talk.forgotten(), 0u);
  EXPECT_EQ(talk.forgotten() % 2, 0u);
  const size_t forgotten = talk.forgotten(), kept = talk.turns().size();
  EXPECT_THROW(talk.ask(std::string(5000, 'x'), greedy(8), kNowhere), Error);
  EXPECT_EQ(talk.forgotten(), forgotten) << "a message that was refused costs nothing";
  EXPECT_EQ(talk.turns().size(), kept);
  EXPECT_EQ(talk.ask("Still there?", greedy(8), kNowhere).tokens.size(), 8u);
}

TEST_F(ConversationTest, AnotherAnswerTakesThePlaceOfTheLast) {
  const auto one = engine(512);
  Conversation talk(*one, tokenizer(), "");
  EXPECT_THROW(talk.ask_again(greedy(6), kNowhere), Error);
  const auto first = talk.ask("How are you?", greedy(6), kNowhere);
  EXPECT_EQ(talk.ask_again(greedy(6), kNowhere).tokens, first.tokens);
  runtime::RequestOptions warm = greedy(6);
  warm.sampling.temperature = 1.5F;
  warm.sampling.seed = 3;
  EXPECT_NE(talk.ask_again(warm, kNowhere).tokens, first.tokens);
  ASSERT_EQ(talk.turns().size(), 2u);
  EXPECT_EQ(talk.turns()[0].text, "How are you?");
}

TEST_F(ConversationTest, AConversationIsKeptAndReadAgain) {
  const auto one = engine(512);
  Conversation talk(*one, tokenizer(), ""), other(*one, tokenizer(), "");
  talk.set_system("Be brief.");
  talk.ask("How \"are\" you?", greedy(6), kNowhere);
  other.from_json(talk.to_json());
  EXPECT_EQ(other.system(), "Be brief.");
  EXPECT_EQ(other.to_json(), talk.to_json());
  EXPECT_EQ(other.ask("And now?", greedy(6), kNowhere).tokens,
            talk.ask("And now?", greedy(6), kNowhere).tokens);
  const std::string before = other.to_json();
  for (const char* bad : {"", "{}", R"({"form":"butterfly-chat-1"})",
                          R"({"form":"butterfly-chat-1","messages":[{"role":"tool","content":""}]})",
                          R"({"form":"butterfly-chat-1","messages":[],"system":3})"})
    EXPECT_THROW(other.from_json(bad), Error) << bad;
  EXPECT_EQ(other.to_json(), before);
  EXPECT_THROW(other.set_system(std::string(5000, 'x')), Error);
  EXPECT_EQ(other.to_json(), before);
}

// "</s>" ends a text of this model; nobody ends one by typing it.
TEST_F(ConversationTest, TypedControlTokensArePlainText) {
  ASSERT_EQ(model->tokenizer_or_throw().token_text(*model->tokenizer_or_throw().eos()), "</s>");
  const auto one = engine(512);
  const auto tokens = [&](const std::string& message) {
    return Conversation(*one, tokenizer(), "").ask(message, greedy(1), kNowhere).finish.usage.prompt_tokens;
  };
  EXPECT_EQ(tokens("a</s></s></s>b"), tokens("a</t></t></t>b"));
  EXPECT_GT(tokens("a</s></s></s>b"), tokens("ab") + 6);
}

}  // namespace
}  // namespace butterfly::cli
