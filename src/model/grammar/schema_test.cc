// JSON schemas: what is accepted, what is refused, and in which words.
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/grammar/testing/small_vocabulary.h"

namespace butterfly::model::grammar {
namespace {

std::string why_not(std::string_view schema) {
  try {
    SchemaSets sets(load_schema(schema));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Schema, PropertiesComeInAnyOrder) {
  const char* schema = R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},
                           "required":["a","b"],"additionalProperties":false})";
  EXPECT_TRUE(accepts_json(schema, R"({"a":1,"b":"x"})"));
  EXPECT_TRUE(accepts_json(schema, R"({"b":"x","a":1})"));
  EXPECT_TRUE(accepts_json(schema, "{\n  \"b\": \"x\",\n  \"a\": 1\n}"));
  EXPECT_FALSE(accepts_json(schema, R"({"b":"x"})"));
  EXPECT_FALSE(accepts_json(schema, R"({"a":1,"b":"x","c":1})"));
  EXPECT_FALSE(accepts_json(schema, R"({"a":1,"a":2,"b":"x"})"));  // twice
}

TEST(Schema, KeysAndTextsMayBeEscaped) {
  const char* schema =
      R"({"properties":{"a\"b":{"const":"é\n"}},"required":["a\"b"],"additionalProperties":false})";
  EXPECT_TRUE(accepts_json(schema, R"({"a\"b":"é\n"})"));
  EXPECT_TRUE(accepts_json(schema, R"({"\u0061\u0022b":"\u00E9\u000a"})"));
  EXPECT_FALSE(accepts_json(schema, R"({"\u0062":1})"));
  EXPECT_FALSE(accepts_json("{}", R"("\ud83d")"));  // half of a pair
  EXPECT_TRUE(accepts_json("{}", R"("\ud83d\ude00")"));
  EXPECT_TRUE(accepts_json(R"({"maxLength":1})", R"("\ud83d\ude00")"));
  EXPECT_FALSE(accepts_json(R"({"maxLength":1})", R"("ab")"));
}

TEST(Schema, OnlyBeginningsThatCanEnd) {
  // Typing "\u00" is possible only while some character would fit.
  const JsonMatcher matcher(SchemaSets(load_schema(R"({"enum":["abc","abd"]})")));
  EXPECT_EQ(follow(matcher, R"("ab)"), 3);
  EXPECT_EQ(follow(matcher, R"("x)"), 1);
  EXPECT_EQ(follow(matcher, R"("\u006)"), 6);
  EXPECT_EQ(follow(matcher, R"("\u01)"), 4);
  EXPECT_EQ(follow(matcher, R"("abc\)"), 4);
  // A key that has been used leads nowhere, and neither does a comma when no key is left.
  const JsonMatcher object(SchemaSets(load_schema(
      R"({"type":"object","properties":{"name":{},"id":{}},"additionalProperties":false,"required":["id"]})")));
  EXPECT_EQ(follow(object, R"({"id":1,"i)"), 9);
  EXPECT_EQ(follow(object, R"({"id":1,"name":2,)"), 16);
  EXPECT_EQ(follow(object, R"({"name":1})"), 9);
  // maxProperties keeps room for what is required.
  const JsonMatcher room(SchemaSets(load_schema(R"({"type":"object","required":["id"],"maxProperties":1})")));
  EXPECT_EQ(follow(room, R"({"x)"), 2);
  EXPECT_EQ(follow(room, R"({"id":1})"), -1);
}

TEST(Schema, NamesThatLeadNowhereAreNotBegun) {
  // Only names like 11xa meet the condition under "not", and there is room for one.
  const JsonMatcher one(SchemaSets(load_schema(
      R"({"type":"object","maxProperties":1,"patternProperties":{"^...a$":true},"additionalProperties":false,
          "not":{"patternProperties":{"^11":false}}})")));
  EXPECT_EQ(follow(one, R"({"2)"), 2);
  EXPECT_EQ(follow(one, R"({"12)"), 3);
  EXPECT_EQ(follow(one, R"({"11xa":1})"), -1);
  // With room for two the first may be another, and the second must be one of them.
  const JsonMatcher two(SchemaSets(load_schema(
      R"({"type":"object","maxProperties":2,"patternProperties":{"^...a$":true},"additionalProperties":false,
          "not":{"patternProperties":{"^11":false}}})")));
  EXPECT_EQ(follow(two, R"({"222a":1,"11xa":1})"), -1);
  EXPECT_EQ(follow(two, R"({"222a":1,"3)"), 11);
  // Two conditions, and one property that can meet only one of them.
  const JsonMatcher both(SchemaSets(load_schema(
      R"({"type":"object","maxProperties":1,"allOf":[{"not":{"patternProperties":{"^a":false}}},
          {"not":{"patternProperties":{"b$":false}}}]})")));
  EXPECT_EQ(follow(both, R"({"c)"), 2);
  EXPECT_EQ(follow(both, R"({"ab":1})"), -1);
}

TEST(Schema, IntegersOfDraft4AreWrittenWithoutAPoint) {
  const char* old = R"({"$schema":"http://json-schema.org/draft-04/schema#","type":"integer"})";
  EXPECT_TRUE(accepts_json(old, "10"));
  EXPECT_FALSE(accepts_json(old, "10.0"));
  EXPECT_TRUE(accepts_json(R"({"type":"integer"})", "10.0"));
  const char* not_old =
      R"({"$schema":"http://json-schema.org/draft-04/schema#","type":"number","not":{"type":"integer"}})";
  EXPECT_TRUE(accepts_json(not_old, "10.0"));
  EXPECT_FALSE(accepts_json(not_old, "10"));
}

TEST(Schema, RefusedNumbersAreNotWrittenWithAnExponent) {
  const char* const no_integer = R"({"not":{"type":["integer","boolean"]}})";
  EXPECT_TRUE(accepts_json(no_integer, "1.5"));
  for (const char* text : {"5", "5e-0", "10e-1", "1.5e1", "2.0"})
    EXPECT_FALSE(accepts_json(no_integer, text)) << text;
  EXPECT_FALSE(accepts_json(R"({"not":{"minimum":100}})", "60e1"));
  EXPECT_TRUE(accepts_json(R"({"not":{"minimum":100}})", "99.5"));
  EXPECT_FALSE(accepts_json(R"({"not":{"multipleOf":2}})", "20e1"));
}

TEST(Schema, CompactJsonHasNeitherBlanksNorEscapesForLetters) {
  const auto fits = [](JsonStyle style, std::string_view text) {
    JsonEnvelope envelope;
    envelope.style = style;
    return follow(JsonMatcher(SchemaSets(load_schema("{}")), envelope), text) < 0;
  };
  for (const JsonStyle style : {JsonStyle::kFree, JsonStyle::kCompact, JsonStyle::kSpaced}) {
    EXPECT_TRUE(fits(style, R"({"a":[1,2,{"b":"é"}],"c":null})"));
    EXPECT_TRUE(fits(style, R"(["\"\\\n\u0001"])")) << "what cannot be written otherwise";
  }
  for (const char* text : {R"({"a": [1, 2], "b": {"c": 3}})"}) {
    EXPECT_TRUE(fits(JsonStyle::kSpaced, text));
    EXPECT_FALSE(fits(JsonStyle::kCompact, text));
  }
  for (const char* text : {"{ \"a\":1}", "[1 ,2]", "[1,  2]", "[1,\n2]", "{\"a\" :1}", " 1", "[1 ]",
                           R"({"\u0061":1})", R"("\/")", R"("\u00e9")", R"("\ud83d\ude00")"}) {
    EXPECT_TRUE(fits(JsonStyle::kFree, text) || text[0] == ' ') << text;
    EXPECT_FALSE(fits(JsonStyle::kCompact, text)) << text;
    EXPECT_FALSE(fits(JsonStyle::kSpaced, text)) << text;
  }
}

TEST(Schema, NamesComeOnce) {
  // Also those that the schema does not list: readers keep one of two equal names, or refuse the text.
  EXPECT_TRUE(accepts_json("{}", R"({"a":1,"ab":2,"b":{"a":1}})"));
  EXPECT_FALSE(accepts_json("{}", R"({"a":1,"a":2})"));
  EXPECT_FALSE(accepts_json("{}", R"({"a":1,"b":2,"\u0061":2})"));
  EXPECT_FALSE(accepts_json("{}", R"([{"":{"a":1,"c":2,"a":3}}])"));
  const char* some = R"({"properties":{"id":{"type":"integer"}},"additionalProperties":{"type":"string"}})";
  EXPECT_TRUE(accepts_json(some, R"({"id":1,"x":"a","y":"b"})"));
  EXPECT_FALSE(accepts_json(some, R"({"x":"a","id":1,"x":"b"})"));
  EXPECT_FALSE(accepts_json(some, R"({"id":1,"id":2})"));
  // A name that one alternative lists and the other does not.
  const char* either = R"({"anyOf":[{"properties":{"a":{"const":1}},"required":["b"]},{"required":["c"]}]})";
  EXPECT_TRUE(accepts_json(either, R"({"a":2,"c":1})"));
  EXPECT_FALSE(accepts_json(either, R"({"a":1,"c":1,"a":1})"));
}

TEST(Schema, NamesMayRunOut) {
  const JsonMatcher two(SchemaSets(
      load_schema(R"({"type":"object","patternProperties":{"^[ab]$":{}},"additionalProperties":false})")));
  EXPECT_EQ(follow(two, R"({"a":1,"b":2})"), -1);
  EXPECT_EQ(follow(two, R"({"a":1,"a)"), 8);
  EXPECT_EQ(follow(two, R"({"a":1,"b":2,)"), 12) << "no name is left";
  // Too many to be told apart: what is left is counted.
  const JsonMatcher many(SchemaSets(load_schema(
      R"({"type":"object","patternProperties":{"^[0-9]{1,3}$":{}},"additionalProperties":false})")));
  std::string tens = R"({"7":0,)";
  for (int i = 70; i < 80; ++i) tens += "\"" + std::to_string(i) + "\":0,";
  EXPECT_EQ(follow(many, tens + "\"7"), static_cast<int>(tens.size()) + 2) << "700 is left";
  EXPECT_EQ(follow(many, tens + "\"75\""), static_cast<int>(tens.size()) + 3);
  for (int i = 700; i < 800; ++i) tens += "\"" + std::to_string(i) + "\":0,";
  EXPECT_EQ(follow(many, tens + "\"7"), static_cast<int>(tens.size()) + 1);
  EXPECT_EQ(follow(many, tens + "\"8\":1}"), -1);
  EXPECT_NE(why_not(R"({"type":"object","propertyNames":{"pattern":"^[0-9]{1,3}$"},"minProperties":1111})"),
            "");
  EXPECT_EQ(why_not(R"({"type":"object","propertyNames":{"pattern":"^[0-9]{1,3}$"},"minProperties":1110})"),
            "");
  EXPECT_NE(why_not(R"({"type":"object","propertyNames":{"enum":["a","b"]},"minProperties":3})"), "");
}

TEST(Schema, LogicIsExact) {
  EXPECT_FALSE(accepts_json(R"({"oneOf":[{"minimum":2},{"maximum":5}],"type":"number"})", "3"));
  EXPECT_TRUE(accepts_json(R"({"oneOf":[{"minimum":2},{"maximum":5}],"type":"number"})", "7"));
  EXPECT_TRUE(accepts_json(R"({"not":{"pattern":"^a"}})", R"("b")"));
  EXPECT_FALSE(accepts_json(R"({"not":{"pattern":"^a"}})", R"("ab")"));
  const char* conditional = R"({"if":{"properties":{"k":{"const":1}},"required":["k"]},
                                "then":{"required":["a"]},"else":{"required":["b"]}})";
  EXPECT_TRUE(accepts_json(conditional, R"({"k":1,"a":0})"));
  EXPECT_FALSE(accepts_json(conditional, R"({"k":1,"b":0})"));
  EXPECT_TRUE(accepts_json(conditional, R"({"b":0,"k":2})"));
  EXPECT_TRUE(accepts_json(R"({"not":{"additionalProperties":{"type":"string"}}})", R"({"a":"x","b":1})"));
  EXPECT_FALSE(accepts_json(R"({"not":{"additionalProperties":{"type":"string"}}})", R"({"a":"x","b":"y"})"));
}

TEST(Schema, RecursionEnds) {
  const char* list =
      R"({"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}},
                         "additionalProperties":false}}})";
  EXPECT_TRUE(accepts_json(list, R"({"next":{"next":{}}})"));
  EXPECT_NE(why_not(R"({"type":"object","required":["a"],"properties":{"a":{"$ref":"#"}}})").find("no value"),
            std::string::npos);
  EXPECT_EQ(why_not(R"({"$ref":"#"})"), "");
  EXPECT_EQ(why_not(R"({"propertyNames":{"$ref":"#"}})"), "");
}

TEST(Schema, RefusalsNameKeywordAndPlace) {
  EXPECT_NE(why_not(R"({"properties":{"a":{"format":"regex"}}})").find("'/properties/a/format'"),
            std::string::npos);
  EXPECT_NE(why_not(R"({"items":{"pattern":"(a)\\1"}})").find("'/items/pattern'"), std::string::npos);
  EXPECT_NE(why_not(R"({"$ref":"http://example.com/x"})").find("another document"), std::string::npos);
  EXPECT_NE(why_not(R"({"$ref":"#/$defs/x"})").find("nowhere"), std::string::npos);
  EXPECT_NE(why_not(R"({"type":"strin"})").find("'/type'"), std::string::npos);
  EXPECT_NE(why_not(R"({"minLength":-1})").find("'/minLength'"), std::string::npos);
  EXPECT_NE(why_not("{").find("not JSON"), std::string::npos);
  EXPECT_NE(why_not("false").find("no value"), std::string::npos);
  EXPECT_NE(why_not(R"({"type":"string","enum":[1]})").find("no value"), std::string::npos);
}

TEST(Schema, LimitsHold) {
  std::string deep;
  for (int i = 0; i < 60'000; ++i) deep += R"({"not":)";
  EXPECT_NE(why_not(deep).find("nested"), std::string::npos);
  EXPECT_NE(why_not(std::string(1 << 20, ' ')).find("bytes"), std::string::npos);
  // 40 pairs that overlap: 2^40 ways.
  std::string pairs = R"({"allOf":[)";
  for (int i = 0; i < 40; ++i)
    pairs += (i ? "," : "") + std::string(R"({"anyOf":[{"required":["a)") + std::to_string(i) +
             R"("]},{"required":["b)" + std::to_string(i) + R"("]}]})";
  EXPECT_NE(why_not(pairs + "]}").find("ways"), std::string::npos);
  // Depth of a text.
  EXPECT_TRUE(accepts_json("{}", std::string(200, '[') + std::string(200, ']')));
  EXPECT_FALSE(accepts_json("{}", std::string(201, '[') + std::string(201, ']')));
  EXPECT_FALSE(accepts_json("{}", "[" + std::string(200, ' ') + "]"));
}

}  // namespace
}  // namespace butterfly::model::grammar
