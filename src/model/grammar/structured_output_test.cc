// The front: kinds of rules, real vocabularies, what is remembered.
#include "model/grammar/structured_output.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/testing/source_tree.h"
#include "model/grammar/testing/small_vocabulary.h"
#include "model/tokenizer/hf_tokenizer.h"
#include "model/tokenizer/vector_files.h"

namespace butterfly::model {
namespace {

namespace fs = std::filesystem;
const fs::path kData = shared_data();

class StructuredOutput : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(kData)) GTEST_SKIP() << "no " << kData;
  }
  static std::unique_ptr<Tokenizer> load(const char* name) {
    const fs::path folder = kData / "tokenizers" / name;
    return tokenizer_from_json(read_whole_file(folder / "tokenizer.json"),
                               read_whole_file(folder / "tokenizer_config.json"));
  }
  static const Tokenizer& qwen() {
    static const auto tokenizer = load("qwen2.5");
    return *tokenizer;
  }
  // Followed in the tokenizer's own tokens, each of which the mask must have.
  static bool accepts(const Tokenizer& tokenizer, const CompiledGrammar& grammar, const std::string& text) {
    const auto constraint = grammar.start();
    std::vector<uint64_t> bits(mask_words(tokenizer.vocab_size()));
    for (const int32_t token :
         tokenizer.encode(text, {.add_bos = false, .add_eos = false, .parse_special = true})) {
      constraint->mask(bits);
      const bool allowed = bits[static_cast<size_t>(token) / 64] >> (token % 64) & 1;
      EXPECT_EQ(constraint->clone()->accept(token), allowed) << text;
      if (!allowed || !constraint->accept(token)) return false;
    }
    constraint->mask(bits);
    const auto eos = static_cast<size_t>(*tokenizer.eos());
    EXPECT_EQ(bits[eos / 64] >> (eos % 64) & 1, constraint->can_end());
    return constraint->can_end();
  }
  static GrammarSpec schema(std::string text) {
    return {.kind = GrammarKind::kJsonSchema, .text = std::move(text), .tools = {}, .format = {}};
  }
};

TEST_F(StructuredOutput, KindsOfRules) {
  GrammarCompiler compiler(qwen());
  const auto object =
      compiler.compile({.kind = GrammarKind::kJsonObject, .text = {}, .tools = {}, .format = {}});
  EXPECT_TRUE(accepts(qwen(), *object, "{\"a\":[1,2,{\"b\":\"käse €\\n\"}]}"));
  EXPECT_FALSE(accepts(qwen(), *object, "{\"a\": 1}")) << "compact, unless white space is asked for";
  GrammarSpec free{.kind = GrammarKind::kJsonObject, .text = {}, .tools = {}, .format = {}};
  free.free_white_space = true;
  EXPECT_TRUE(accepts(qwen(), *compiler.compile(free), "{\"a\": [1, 2, {\"b\": \"käse €\\n\"}]}"));
  EXPECT_FALSE(accepts(qwen(), *object, "[1]"));
  EXPECT_FALSE(accepts(qwen(), *object, "Sure! {}"));
  const auto gbnf = compiler.compile(
      {.kind = GrammarKind::kGbnf, .text = "root ::= \"yes\" | \"no\"", .tools = {}, .format = {}});
  EXPECT_TRUE(accepts(qwen(), *gbnf, "yes"));
  EXPECT_FALSE(accepts(qwen(), *gbnf, "maybe"));
  const auto typed =
      compiler.compile(schema(R"({"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]})"));
  EXPECT_TRUE(accepts(qwen(), *typed, "{\"n\":12}"));
  EXPECT_FALSE(accepts(qwen(), *typed, "{\"n\":12.0}"));
  EXPECT_FALSE(accepts(qwen(), *typed, "{\"n\":\"12\"}"));
}

TEST_F(StructuredOutput, ToolCalls) {
  GrammarCompiler compiler(qwen());
  GrammarSpec spec{.kind = GrammarKind::kTools, .text = {}, .tools = {}, .format = {}};
  spec.tools = {
      {"weather", R"({"type":"object","properties":{"city":{"$ref":"#/$defs/c"}},"required":["city"],
                               "$defs":{"c":{"type":"string"}},"additionalProperties":false})"},
      {"stop", ""}};
  const std::string call =
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bern\"}}\n</tool_call>";
  const auto forced = compiler.compile(spec);
  EXPECT_TRUE(accepts(qwen(), *forced, call));
  EXPECT_TRUE(accepts(qwen(), *forced, "<tool_call>\n{\"name\": \"stop\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(accepts(qwen(), *forced, "It is sunny."));
  EXPECT_FALSE(
      accepts(qwen(), *forced, "<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(accepts(qwen(), *forced,
                       "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": 1}}\n</tool_call>"));
  EXPECT_FALSE(accepts(qwen(), *forced, call + "\n" + call));
  spec.parallel_calls = true;
  EXPECT_TRUE(accepts(qwen(), *compiler.compile(spec), call + "\n" + call));
  spec.choice = ToolChoice::kLazy;
  const auto lazy = compiler.compile(spec);
  EXPECT_TRUE(accepts(qwen(), *lazy, "It is sunny."));
  EXPECT_TRUE(accepts(qwen(), *lazy, "Let me look. " + call));
  EXPECT_FALSE(accepts(qwen(), *lazy, "Let me look. <tool_call>\nhello"));
  EXPECT_THROW(compiler.compile({.kind = GrammarKind::kTools, .text = {}, .tools = {}, .format = {}}), Error);
}

TEST_F(StructuredOutput, RemembersTheLastOnes) {
  GrammarCompiler compiler(qwen(), {.grammars_max = 2});
  const auto first = compiler.compile(schema(R"({"const":1})"));
  EXPECT_EQ(compiler.compile(schema(R"({"const":1})")), first);
  compiler.compile(schema(R"({"const":2})"));
  compiler.compile(schema(R"({"const":3})"));
  EXPECT_NE(compiler.compile(schema(R"({"const":1})")), first);
  EXPECT_TRUE(accepts(qwen(), *first, "1"));  // works on without the compiler's memory
}

TEST_F(StructuredOutput, RemembersSoManyBytes) {
  const auto names = [](int from) {
    std::string text = R"({"enum":[)";
    for (int i = 0; i < 200; ++i)
      text += (i ? "," : "") + std::to_string(from + i) + R"(,"v)" + std::to_string(from + i) + '"';
    return text + "]}";
  };
  GrammarCompiler probe(qwen());
  probe.compile(schema(names(1000)));
  const size_t one = probe.remembered_bytes();
  GrammarCompiler compiler(qwen(), {.bytes_max = 3 * one});
  const auto first = compiler.compile(schema(names(1000)));
  for (int i = 2; i < 12; ++i) compiler.compile(schema(names(1000 * i)));
  EXPECT_LE(compiler.remembered_bytes(), 3 * one);
  EXPECT_GT(compiler.remembered_bytes(), one);
  EXPECT_NE(compiler.compile(schema(names(1000))), first);
  // One that is larger than all of it is still compiled, and then remembered alone.
  GrammarCompiler tiny(qwen(), {.bytes_max = 1});
  const auto again = tiny.compile(schema(names(1000)));
  EXPECT_EQ(tiny.compile(schema(names(1000))), again);
}

// On whole vocabularies the mask is what trying every token gives.
TEST_F(StructuredOutput, MaskIsWhatTryingGivesOnRealVocabularies) {
  for (const char* name : {"qwen2.5", "llama3"}) {
    const auto tokenizer = load(name);
    const auto index = std::make_shared<const grammar::TokenIndex>(*tokenizer);
    const auto made = grammar::compile_schema(
        R"({"type":"object","properties":{"name":{"type":"string","maxLength":12},"tag":{"enum":["a b","état"]},
            "code":{"type":"string","pattern":"^[a-z]+[0-9]{2}$"},"n":{"type":"integer","minimum":-5,"maximum":130}}})",
        index);
    const auto constraint = made->start();
    const std::string text =
        "{\"name\": \"Ann é\", \"code\":\"ab12\",\"tag\":\"a b\", \"other key\": [1, \"x\"], \"n\": 12}";
    size_t checked = 0;
    for (const int32_t token : tokenizer->encode(text, {.add_bos = false, .add_eos = false})) {
      if (checked++ % 3 == 0) {
        ASSERT_EQ(grammar::mask_of(*constraint, *index), grammar::mask_by_trying(*constraint, *index))
            << checked;
      }
      ASSERT_TRUE(constraint->accept(token)) << tokenizer->piece(token);
    }
    EXPECT_TRUE(constraint->can_end());
  }
}

}  // namespace
}  // namespace butterfly::model
