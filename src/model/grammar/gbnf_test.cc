// GBNF: notation, matching, refusals, and llama.cpp's own grammars.
#include "model/grammar/gbnf.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/testing/source_tree.h"
#include "model/grammar/testing/small_vocabulary.h"

namespace butterfly::model::grammar {
namespace {

namespace fs = std::filesystem;
const fs::path kData = shared_data("gbnf");

bool accepts(std::string_view grammar, std::string_view text) {
  static const auto index = small_vocabulary();
  return accepts_text(*gbnf_grammar(grammar, index), text);
}

std::string why_not(std::string_view grammar) {
  try {
    gbnf_grammar(grammar, small_vocabulary());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string read(const char* name) {
  std::ifstream in(kData / name);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Gbnf, Notation) {
  const char* grammar = R"(
# a comment
root ::= greeting ("!" | "?"){1,3}   # another
  greeting ::= "hello" | ("good "
     ("morning"    # groups may go over lines
      | "night")) |
     "hi" [^a-z\n\x21?]{2}
)";
  EXPECT_TRUE(accepts(grammar, "hello!"));
  EXPECT_TRUE(accepts(grammar, "good night?!?"));
  EXPECT_TRUE(accepts(grammar, "hiÉ€!"));
  EXPECT_FALSE(accepts(grammar, "hello"));
  EXPECT_FALSE(accepts(grammar, "hello!!!!"));
  EXPECT_FALSE(accepts(grammar, "hixx!"));
  EXPECT_TRUE(accepts("root ::= \"a\"* [b] \"c\"? .", "aab\n"));
  EXPECT_TRUE(accepts(R"(root ::= "\u20AC\x41\U0001F600\"\\")", "€A😀\"\\"));
  EXPECT_TRUE(accepts(R"(root ::= [\]\-a-c]+)", "]-abc"));
  EXPECT_TRUE(accepts("root ::= ", ""));
  EXPECT_TRUE(accepts("root ::= \"a\"{2,}", "aaaaa"));
  EXPECT_FALSE(accepts("root ::= \"a\"{2,}", "a"));
}

TEST(Gbnf, RecursionInTheMiddleAndAtTheEnd) {
  const char* nested = "root ::= \"(\" root \")\" | \"x\"";
  EXPECT_TRUE(accepts(nested, std::string(1000, '(') + "x" + std::string(1000, ')')));
  EXPECT_FALSE(accepts(nested, "((x)"));
  EXPECT_TRUE(accepts("root ::= \"a\" root | \"b\"", std::string(100'000, 'a') + "b"));
  EXPECT_TRUE(accepts("root ::= ws \"a\"\nws ::= (\" \" ws)?", "    a"));
}

TEST(Gbnf, RefusesInWords) {
  EXPECT_NE(why_not("root ::= root \"a\" | \"b\"").find("left recursion"), std::string::npos);
  EXPECT_NE(why_not("root ::= a root \"b\"\na ::= \"\" | \"x\"").find("left recursion"), std::string::npos);
  EXPECT_NE(why_not("root ::= a").find("'a' is used but not defined"), std::string::npos);
  EXPECT_NE(why_not("a ::= \"x\"").find("no rule 'root'"), std::string::npos);
  EXPECT_NE(why_not("root ::= \"x\" root").find("no text"), std::string::npos);
  EXPECT_NE(why_not("root ::= \"a\nb ::= \"c\"").find("line 1"), std::string::npos);
  EXPECT_NE(why_not("root ::= \"a\"\nroot ::= \"b\"").find("twice"), std::string::npos);
  EXPECT_NE(why_not("root ::= [b-a]").find("backwards"), std::string::npos);
  EXPECT_NE(why_not("root ::= \"a\"{3,2}").find("below"), std::string::npos);
  EXPECT_NE(why_not("root ::= \"a\"{99999}").find("repetition"), std::string::npos);
  EXPECT_NE(why_not("root ::= ((\"a\"{999}){999}){999}").find("more than"), std::string::npos);
  EXPECT_NE(why_not("root ::= <think>").find("not supported"), std::string::npos);
}

TEST(Gbnf, AnyDepthOfInput) {
  EXPECT_NE(
      why_not("root ::= " + std::string(60'000, '(') + "\"a\"" + std::string(60'000, ')')).find("nested"),
      std::string::npos);
  EXPECT_NE(why_not("root ::= \"a\"" + std::string(60'000, '*')).find("repetitions"), std::string::npos);
  // A chain of rules, each the next one: first backwards, then forwards.
  std::string chain = "r15000 ::= \"x\"\n";
  for (int i = 14'999; i > 0; --i) chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
  EXPECT_TRUE(accepts(chain + "root ::= r1", "x"));
  std::string deep;
  for (int i = 0; i < 5'000; ++i)
    deep += "r" + std::to_string(i) + " ::= \"(\"? r" + std::to_string(i + 1) + "\n";
  EXPECT_EQ(why_not("root ::= r0\n" + deep + "r5000 ::= \"x\""), "");
  std::string circle = "root ::= r0\n";
  for (int i = 0; i < 15'000; ++i)
    circle += "r" + std::to_string(i) + " ::= r" + std::to_string((i + 1) % 15'000) + "\n";
  EXPECT_NE(why_not(circle).find("left recursion"), std::string::npos);
}

TEST(Gbnf, AmbiguityDoesNotExplode) {
  // Each letter can be read in very many ways.
  const auto grammar =
      gbnf_grammar("root ::= a a a a a a a a\na ::= b*\nb ::= c* \"x\"?\nc ::= [a-z]+", small_vocabulary());
  const auto constraint = grammar->start();
  TokenBits bits(mask_words(small_vocabulary()->vocab_size()), 0);
  for (int i = 0; i < 50; ++i) {
    constraint->mask(bits);
    ASSERT_TRUE(constraint->accept('x'));
  }
  EXPECT_TRUE(constraint->can_end());
}

TEST(Gbnf, WhatAMaskAllowsIsAcceptedUntilTheTextIsTooAmbiguous) {
  // Every "2(" can close any number of the open repetitions: the ways to read the text grow without end.
  const auto grammar = gbnf_grammar("root ::= \"2(\" root +*", small_vocabulary());
  const auto constraint = grammar->start();
  TokenBits bits(mask_words(small_vocabulary()->vocab_size()), 0);
  for (int i = 0; i < 400; ++i) {
    constraint->mask(bits);
    const char next = i % 2 == 0 ? '2' : '(';
    if (!(bits[static_cast<size_t>(next) / 64] >> (next % 64) & 1)) {
      EXPECT_EQ(std::count(bits.begin(), bits.end(), 0u),
                static_cast<long>(bits.size()));  // the text is over
      EXPECT_FALSE(constraint->accept(next));
      return;
    }
    ASSERT_TRUE(constraint->accept(next)) << i;
  }
}

TEST(Gbnf, GrammarsOfLlamaCpp) {
  if (!fs::exists(kData)) GTEST_SKIP() << "no " << kData;
  EXPECT_TRUE(accepts(read("json.gbnf"), "{\"a\": [1, -2.5e12, true, null, \"x\\u00e9\\n\"], \"b\": {}}"));
  EXPECT_FALSE(accepts(read("json.gbnf"), "{\"a\": [1, ]}"));
  EXPECT_FALSE(accepts(read("json.gbnf"), "[1]"));
  EXPECT_TRUE(accepts(read("json_arr.gbnf"), "[\n1,\n{\"a\":2}]"));
  EXPECT_TRUE(accepts(read("arithmetic.gbnf"), "(a+b)*2=c\nx=1\n"));
  EXPECT_FALSE(accepts(read("arithmetic.gbnf"), "(a+b*2=c\n"));
  EXPECT_TRUE(accepts(read("list.gbnf"), "- one\n- zwei €\n"));
  EXPECT_FALSE(accepts(read("list.gbnf"), "- one"));
  EXPECT_TRUE(accepts(read("english.gbnf"), "Hello, world! 1 2"));
  EXPECT_FALSE(accepts(read("english.gbnf"), "Hé"));
}

}  // namespace
}  // namespace butterfly::model::grammar
