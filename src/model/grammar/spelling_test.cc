#include "model/grammar/spelling.h"

#include <gtest/gtest.h>

#include "model/grammar/gbnf.h"
#include "model/grammar/testing/small_vocabulary.h"
#include "model/grammar/text_grammar.h"

namespace butterfly::model::grammar {
namespace {

// Every byte but these.
std::shared_ptr<const TokenIndex> without(std::string_view missing, std::vector<std::string> more = {}) {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    pieces.emplace_back(missing.find(c) == missing.npos ? std::string(1, c) : std::string());
  }
  for (std::string& piece : more) pieces.push_back(std::move(piece));
  pieces.emplace_back("</s>");
  const auto end = static_cast<uint32_t>(pieces.size() - 1);
  return std::make_shared<const TokenIndex>(std::move(pieces), std::vector<uint32_t>{end});
}

bool schema_spelled(std::string_view schema, const std::shared_ptr<const TokenIndex>& index) {
  JsonEnvelope envelope;
  envelope.style = JsonStyle::kCompact;
  return may_be_spelled(*compile_schema(schema, index, envelope), *index);
}

TEST(Spelling, EveryByteSpellsEverything) {
  EXPECT_TRUE(without("")->spells_everything());
  EXPECT_TRUE(without("\xff\x01")->spells_everything()) << "in no text";
  EXPECT_FALSE(without("{")->spells_everything());
}

TEST(Spelling, RulesThatTheVocabularyCannotKeepToAreFound) {
  const auto no_braces = without("{}");
  EXPECT_FALSE(schema_spelled(R"({"type":"object"})", no_braces));
  EXPECT_TRUE(schema_spelled("{}", no_braces)) << "a number will do";
  EXPECT_TRUE(schema_spelled(R"({"type":"array"})", no_braces));
  EXPECT_TRUE(schema_spelled(R"({"type":"object"})", without("{}", {"{}"}))) << "in one piece";
  const char* named = R"({"type":"object","properties":{"max":{"type":"boolean"}},"required":["max"],
                          "additionalProperties":false})";
  EXPECT_TRUE(schema_spelled(named, without("y")));
  EXPECT_FALSE(schema_spelled(named, without("x")));
  EXPECT_FALSE(schema_spelled(named, without("ae"))) << "neither true nor false";
  EXPECT_FALSE(may_be_spelled(*gbnf_grammar("root ::= \"ax\" | \"bx\"", without("x")), *without("x")));
  EXPECT_TRUE(may_be_spelled(*regex_grammar("[xy]+", without("x")), *without("x")));
}

}  // namespace
}  // namespace butterfly::model::grammar
