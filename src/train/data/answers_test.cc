// What of a chat is the assistant's: for real templates and tokenizers, in every turn.
#include "train/data/answers.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file_text.h"
#include "base/json_text.h"
#include "base/testing/source_tree.h"
#include "model/formats/model_file.h"
#include "model/tokenizer/token_places.h"
#include "train/tokenizer/tokenizer_trainer.h"

namespace butterfly::train {
namespace {

namespace fs = std::filesystem;
using Json = model::ChatJson;

const Json kChat = json_of_text<Json>(R"([{"role":"user","content":"Two?"},
    {"role":"assistant","content":"Three."}, {"role":"user","content":"Four?"},
    {"role":"assistant","content":"Five."}])");

std::unique_ptr<model::Tokenizer> bytes_and(const std::vector<std::string>& special) {
  BpeTrainer trainer({.vocabulary = 256 + static_cast<uint32_t>(special.size()), .special = special});
  model::Metadata metadata;
  add_tokenizer_metadata(trainer.train(), {.bos = "", .eos = special[0], .padding = ""}, metadata);
  return model::make_tokenizer(metadata);
}

// The answers as they stand in the text, and as they are learned.
struct Found {
  std::vector<std::string> ranges;
  std::string learned;
};
Found found(const model::Tokenizer& tokenizer, const std::string& source, const Json& chat) {
  const model::ChatPrompter prompter(tokenizer, source);
  const model::RenderedChat whole = prompter.render({.messages = &chat, .add_generation_prompt = false});
  const auto ranges = answer_ranges(prompter, chat, nullptr, whole);
  Found result;
  for (const model::ByteRange& range : ranges)
    result.ranges.push_back(whole.text.substr(range.begin, range.end - range.begin));
  const std::vector<int32_t> ids = prompter.encode(whole);
  const std::vector<bool> learned = learned_ids(tokenizer, ids, whole.text, ranges);
  for (size_t i = 0; i < ids.size(); ++i)
    if (learned[i]) result.learned += tokenizer.decode({&ids[i], 1}, {.show_special = true});
  return result;
}

TEST(Answers, AllTurnsWithWhatEndsThem) {
  const auto tokenizer = bytes_and({"<|endoftext|>", "<|im_start|>", "<|im_end|>"});
  const Found it = found(*tokenizer, "", kChat);
  EXPECT_EQ(it.ranges, (std::vector<std::string>{"Three.", "Five."}));
  EXPECT_EQ(it.learned, "Three.<|im_end|>Five.<|im_end|>");
}

// An answer may begin and end as the words around it, or as what stands in its place while it is looked for.
TEST(Answers, AnyContents) {
  const auto tokenizer = bytes_and({"<|endoftext|>", "<|im_start|>", "<|im_end|>"});
  for (const char* answer : {"", "\n", "Q q", "7 z", "Q", "<|im_end|>", "assistant\n", "Two?"}) {
    Json chat = kChat;
    chat[1]["content"] = answer;
    EXPECT_EQ(found(*tokenizer, "", chat).ranges, (std::vector<std::string>{answer, "Five."})) << answer;
  }
}

TEST(Answers, RealTemplates) {
  const fs::path folder = shared_data("chat-templates/llamacpp");
  if (!fs::exists(folder)) GTEST_SKIP() << "no " << folder;
  const auto tokenizer = bytes_and({"</s>", "<|im_start|>", "<|im_end|>"});
  size_t checked = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string source = read_text_file(entry.path());
    try {
      model::ChatPrompter(*tokenizer, source).render({.messages = &kChat});
    } catch (const Error&) {
      continue;  // it wants tools
    }
    const Found it = found(*tokenizer, source, kChat);
    ASSERT_EQ(it.ranges.size(), 2u) << entry.path();
    EXPECT_EQ(it.ranges[0], "Three.") << entry.path();
    EXPECT_EQ(it.ranges[1], "Five.") << entry.path();
    ++checked;
  }
  EXPECT_GE(checked, 15u);
}

// Templates that show what was thought for the last answer only: of the others no word of it is learned.
TEST(Answers, EarlierAnswersAreLearnedAsTheyAreShown) {
  const fs::path file = shared_data("chat-templates/llamacpp/deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja");
  if (!fs::exists(file)) GTEST_SKIP() << "no " << file;
  const auto tokenizer = bytes_and({"</s>", "<|im_start|>", "<|im_end|>"});
  Json chat = kChat;
  chat[1]["content"] = "<think>Count.</think>Three.";
  const Found it = found(*tokenizer, read_text_file(file), chat);
  EXPECT_EQ(it.ranges, (std::vector<std::string>{"Three.", "Five."}));
}

// SentencePiece puts a space before a text: encoded apart, the answer would begin with two.
TEST(Answers, SentencePieceTokensAreThoseOfTheWholeText) {
  const fs::path file = shared_data("tokenizers/llama2-spm/ggml-vocab-llama-spm.gguf");
  if (!fs::exists(file)) GTEST_SKIP() << "no " << file;
  const auto tokenizer = model::make_tokenizer(model::open_model(file).metadata());
  const std::string source =
      "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else "
      "%} {{ m.content }} {{ eos_token }}{% endif %}{% endfor %}";
  const Found it = found(*tokenizer, source, kChat);
  EXPECT_EQ(it.ranges, (std::vector<std::string>{"Three.", "Five."}));
  EXPECT_EQ(it.learned, "Three.</s>Five.</s>");
}

TEST(TokenPlaces, AreTheTextsOfTheTokens) {
  const fs::path file = shared_data("tokenizers/llama2-spm/ggml-vocab-llama-spm.gguf");
  if (!fs::exists(file)) GTEST_SKIP() << "no " << file;
  const auto tokenizer = model::make_tokenizer(model::open_model(file).metadata());
  for (const std::string text :
       {"", "a", " a", "  two  spaces ", "naïve 你好\n\n\tx", "</s> plain", "\xff\xfe"}) {
    const std::vector<int32_t> ids = tokenizer->encode(text);
    const auto places = model::token_places(*tokenizer, ids, text);
    ASSERT_TRUE(places) << text;
    ASSERT_EQ(places->size(), ids.size());
    size_t at = 0;
    for (const model::ByteRange& place : *places) {
      EXPECT_EQ(place.begin, at) << text;
      at = place.end;
    }
    EXPECT_EQ(at, text.size()) << text;
  }
  EXPECT_FALSE(model::token_places(*tokenizer, tokenizer->encode("abc"), "xyz"));
}

}  // namespace
}  // namespace butterfly::train
