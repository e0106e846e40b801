// Masks are what trying every token gives; random walks under them always come to a valid end.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>

#include "model/grammar/gbnf.h"
#include "model/grammar/testing/random_text.h"
#include "model/grammar/text_grammar.h"

namespace butterfly::model::grammar {
namespace {

const char* const kSchemas[] = {
    "{}",
    R"({"type":"object"})",
    R"({"type":"object","properties":{"name":{"type":"string"},"id":{"type":"integer"},"age":{"type":"number","minimum":0}},
        "required":["name","id"],"additionalProperties":false})",
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":4},"id":{"enum":["ab","abc","\"a"]}},
        "required":["id"]})",
    R"({"type":"array","items":{"type":"string","minLength":2,"maxLength":5},"minItems":1,"maxItems":3})",
    R"({"type":"string","pattern":"^(a|é)+b?$"})",
    R"({"type":"string","format":"date-time"})",
    R"({"anyOf":[{"type":"object","properties":{"id":{"const":"foo"},"bar":{"type":"boolean"}},"required":["id","bar"],
        "additionalProperties":false},{"type":"object","properties":{"id":{"const":"abc"},"age":{"type":"null"}},
        "required":["id","age"],"additionalProperties":false},{"type":"string","maxLength":3}]})",
    R"({"type":"object","patternProperties":{"^fo":{"type":"integer","maximum":99},"r$":{"type":"boolean"}},
        "additionalProperties":false,"minProperties":1})",
    R"({"type":"object","additionalProperties":{"type":"array","contains":{"const":12},"items":{"type":"number"}}})",
    R"({"type":"object","maxProperties":2,"propertyNames":{"maxLength":3}})",
    R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"array","items":{"anyOf":[{"$ref":"#/$defs/t"},{"enum":[1,12,123]}]}}}})",
    R"({"oneOf":[{"type":"integer","multipleOf":3},{"type":"integer","multipleOf":5}]})",
    R"({"type":"object","maxProperties":1,"patternProperties":{"^...a$":true},"additionalProperties":false,
        "not":{"patternProperties":{"^11":false}}})",
    R"({"type":"object","maxProperties":2,"not":{"additionalProperties":{"type":"integer"}},
        "allOf":[{"not":{"patternProperties":{"^fo":{"type":"string"}}}}]})",
};
const char* const kGrammars[] = {
    "root ::= \"hello\" (\" world\" | \"foo\")*",
    "root ::= obj\nobj ::= \"{\" ws (str \":\" ws val (\",\" ws str \":\" ws val)*)? \"}\"\n"
    "val ::= obj | str | [0-9]+\nstr ::= \"\\\"\" [^\"\\\\]* \"\\\"\" ws\nws ::= [ \\n]*",
    "root ::= item+\nitem ::= \"- \" [^\\n]+ \"\\n\"",
    "root ::= [a-zé€]{2,5} | \"(\" root \")\"",
};

std::vector<std::pair<std::string, std::shared_ptr<const CompiledGrammar>>> all_grammars(
    const std::shared_ptr<const TokenIndex>& index) {
  std::vector<std::pair<std::string, std::shared_ptr<const CompiledGrammar>>> out;
  for (const char* schema : kSchemas) {
    out.emplace_back(schema, compile_schema(schema, index));
    for (const JsonStyle style : {JsonStyle::kCompact, JsonStyle::kSpaced}) {
      JsonEnvelope envelope;
      envelope.style = style;
      out.emplace_back(schema, compile_schema(schema, index, envelope));
    }
  }
  for (const char* grammar : kGrammars) out.emplace_back(grammar, gbnf_grammar(grammar, index));
  for (const char* expression : {"(foo|bar)+[0-9]{2,4}", "a@b\\.c(om)?|hello world", "[^\"]*é?"})
    out.emplace_back(expression, regex_grammar(expression, index));
  const char* tool =
      R"({"type":"object","properties":{"id":{"type":"integer"}},"additionalProperties":false})";
  out.emplace_back("forced",
                   compile_schema(tool, index, {"<tool_call>\n", "\n</tool_call>", "\n", true, false}));
  out.emplace_back("lazy",
                   compile_schema(tool, index, {"<tool_call>\n", "\n</tool_call>", "\n", true, true}));
  return out;
}

RC_GTEST_PROP(Mask, IsWhatTryingEveryTokenGives, ()) {
  static const auto index = small_vocabulary();
  static const auto grammars = all_grammars(index);
  const auto& [name, grammar] = grammars[*rc::gen::inRange<size_t>(0, grammars.size())];
  Draws rng{*rc::gen::arbitrary<uint64_t>()};
  const auto constraint = grammar->start();
  for (int step = 0; step < 40; ++step) {
    const TokenBits mask = mask_of(*constraint, *index);
    RC_ASSERT(mask == mask_by_trying(*constraint, *index));
    auto tokens = tokens_of(mask);
    std::erase_if(tokens, [&](uint32_t token) { return index->ends_text(token); });
    if (tokens.empty()) {
      RC_ASSERT(constraint->can_end());
      break;
    }
    RC_ASSERT(constraint->accept(static_cast<int32_t>(tokens[rng.below(tokens.size())])));
  }
}

TEST(Mask, RandomWalksEndInJson) {
  const auto index = small_vocabulary();
  const EndSeeker seeker(*index);
  Draws rng{7};
  for (const char* schema : kSchemas) {
    for (const JsonStyle style : {JsonStyle::kFree, JsonStyle::kCompact, JsonStyle::kSpaced}) {
      JsonEnvelope envelope;
      envelope.style = style;
      const auto grammar = compile_schema(schema, index, envelope);
      for (int i = 0; i < 12; ++i) {
        const std::string text = random_text(*grammar, *index, rng, seeker);
        EXPECT_TRUE(nlohmann::json::accept(text)) << schema << "\n" << text;
        EXPECT_TRUE(accepts_json(schema, text)) << schema << "\n" << text;
      }
    }
  }
}

TEST(Mask, ClonesGoTheirOwnWays) {
  const auto index = small_vocabulary();
  const auto one = compile_schema(R"({"enum":["ab","ac"]})", index)->start();
  ASSERT_TRUE(one->accept('"'));
  ASSERT_TRUE(one->accept('a'));
  const auto other = one->clone();
  ASSERT_TRUE(one->accept('b'));
  ASSERT_TRUE(other->accept('c'));
  EXPECT_FALSE(one->accept('c'));
  EXPECT_TRUE(one->accept('"'));  // a refused token changed nothing
  EXPECT_TRUE(one->can_end());
  EXPECT_FALSE(other->can_end());
  EXPECT_FALSE(one->accept(-1));
  EXPECT_FALSE(one->accept(1 << 30));
}

TEST(Mask, ToolCalls) {
  const auto index = small_vocabulary();
  const JsonEnvelope lazy{"<tool_call>\n", "\n</tool_call>", "\n", true, true};
  const auto grammar = compile_schema(
      R"({"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]})", index, lazy);
  EXPECT_TRUE(accepts_text(*grammar, "hello <tool world"));
  EXPECT_TRUE(accepts_text(*grammar, "hi <tool_call>\n{\"id\": 1}\n</tool_call> bye"));
  EXPECT_TRUE(
      accepts_text(*grammar, "<<tool_call>\n{\"id\": 1}\n</tool_call><tool_call>\n{\"id\":2}\n</tool_call>"));
  EXPECT_FALSE(accepts_text(*grammar, "<tool_call>\n{\"id\": 1}"));
  EXPECT_FALSE(accepts_text(*grammar, "<tool_call>\nhello"));
}

}  // namespace
}  // namespace butterfly::model::grammar
