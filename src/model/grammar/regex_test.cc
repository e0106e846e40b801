// Expressions as automata, against std::regex.
#include "model/grammar/regex.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <regex>
#include <string>

#include "base/error.h"

namespace butterfly::model::grammar {
namespace {

bool found(std::string_view expression, std::string_view text) {
  return regex_dfa(expression).match(text) != 0;
}

TEST(Regex, IsFoundAnywhereUnlessAnchored) {
  EXPECT_TRUE(found("b", "abc"));
  EXPECT_FALSE(found("^b", "abc"));
  EXPECT_FALSE(found("b$", "abc"));
  EXPECT_TRUE(found("^abc$", "abc"));
  EXPECT_TRUE(found("^a|c$", "xc"));
  EXPECT_FALSE(found("^(a|c)$", "xc"));
  EXPECT_TRUE(found("", ""));
  EXPECT_TRUE(found("^$", ""));
  EXPECT_FALSE(found("^$", "a"));
}

TEST(Regex, CharactersBeyondAscii) {
  EXPECT_TRUE(found("^.$", "€"));
  EXPECT_TRUE(found("^[à-ü]+$", "éü"));
  EXPECT_FALSE(found("^[à-ü]+$", "a"));
  EXPECT_TRUE(found("^\\p{Lu}\\p{L}*$", "Élan"));
  EXPECT_FALSE(found("^\\p{Lu}$", "é"));
  EXPECT_TRUE(found("^\\u20AC$", "€"));
  EXPECT_TRUE(found("^\\u{1F600}$", "😀"));
  EXPECT_TRUE(found("^\\uD83D\\uDE00$", "😀"));
  EXPECT_FALSE(found("^.$", "\n"));
  EXPECT_TRUE(found("^[^a]$", "\n"));
  // Bytes that are no characters match nothing.
  EXPECT_FALSE(found(".*", "\xc3"));
}

TEST(Regex, LookAheadAtTheFront) {
  EXPECT_TRUE(found("^(?=.*[0-9])(?=.*[a-z]).{4,}$", "abc1"));
  EXPECT_FALSE(found("^(?=.*[0-9])(?=.*[a-z]).{4,}$", "abcd"));
  EXPECT_FALSE(found("^(?!foo)[a-z]+$", "foobar"));
  EXPECT_TRUE(found("^(?!foo)[a-z]+$", "barfoo"));
}

TEST(Regex, RefusesInWords) {
  const auto why = [](std::string_view expression) -> std::string {
    try {
      regex_dfa(expression);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(why("(a)\\1").find("back-reference"), std::string::npos);
  EXPECT_NE(why("a\\b").find("word boundary"), std::string::npos);
  EXPECT_NE(why("a(?=b)").find("not supported"), std::string::npos);
  EXPECT_NE(why("(a").find("'('"), std::string::npos);
  EXPECT_NE(why("a**").find("repeat"), std::string::npos);
  EXPECT_NE(why("[b-a]").find("backwards"), std::string::npos);
  EXPECT_NE(why("a{5000}{1,9}").find("repeat"), std::string::npos);
  EXPECT_NE(why("(a.*b.*c.{30}){30}").find("states"), std::string::npos);
  EXPECT_NE(why("((((){9999}){9999}){9999}){9999}").find("steps"), std::string::npos);
  EXPECT_NE(why(std::string(60'000, '(')).find("nested"), std::string::npos);
  EXPECT_NE(why("a" + std::string(60'000, '?')).find("repeat"), std::string::npos);
}

// Small expressions that std::regex reads in the same way.
rc::Gen<std::string> expressions(int depth) {
  const auto atom = rc::gen::element<std::string>("a", "b", ".", "[ab]", "[^a]", "^", "$", "c", "\\d", "\\w");
  if (depth == 0) return atom;
  const auto inner = expressions(depth - 1);
  return rc::gen::oneOf(
      atom, rc::gen::map(rc::gen::pair(inner, inner), [](const auto& p) { return p.first + p.second; }),
      rc::gen::map(rc::gen::pair(inner, inner),
                   [](const auto& p) { return "(" + p.first + "|" + p.second + ")"; }),
      rc::gen::map(
          rc::gen::pair(inner, rc::gen::element<std::string>("*", "+", "?", "{2}", "{1,2}", "{0,3}")),
          [](const auto& p) { return "(?:" + p.first + ")" + p.second; }));
}

RC_GTEST_PROP(Regex, AgreesWithStdRegex, ()) {
  const std::string expression = *expressions(3);
  const std::string text = *rc::gen::container<std::string>(rc::gen::element('a', 'b', 'c', '1', ' '));
  const bool expected = std::regex_search(text, std::regex(expression, std::regex::ECMAScript));
  RC_ASSERT(found(expression, text) == expected);
}

}  // namespace
}  // namespace butterfly::model::grammar
