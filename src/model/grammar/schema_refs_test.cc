// References of schemas: to other documents, and those that depend on the way to them.
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/grammar/schema_refs.h"
#include "model/grammar/testing/small_vocabulary.h"

namespace butterfly::model::grammar {
namespace {

// A generic list whose kind of item the schema around it says.
constexpr const char* kLists = R"({"$id":"http://x/main",
  "properties":{"numbers":{"$ref":"numbers"},"words":{"$ref":"words"},"any":{"$ref":"list"}},
  "$defs":{
    "list":{"$id":"list","type":"array","items":{"$dynamicRef":"#item"},
            "$defs":{"item":{"$dynamicAnchor":"item","type":["number","string"]}}},
    "numbers":{"$id":"numbers","$ref":"list","$defs":{"item":{"$dynamicAnchor":"item","type":"number"}}},
    "words":{"$id":"words","$ref":"list","$defs":{"item":{"$dynamicAnchor":"item","type":"string"}}}}})";

TEST(SchemaRefs, DynamicOnesDependOnTheWay) {
  EXPECT_TRUE(accepts_json(kLists, R"({"numbers":[1,2],"words":["a"],"any":[1,"a"]})"));
  EXPECT_FALSE(accepts_json(kLists, R"({"numbers":["a"]})"));
  EXPECT_FALSE(accepts_json(kLists, R"({"words":[1]})"));
  EXPECT_FALSE(accepts_json(kLists, R"({"any":[null]})"));
}

TEST(SchemaRefs, RecursiveOnesOfDraft2019) {
  const char* tree =
      R"({"$id":"http://x/strict","$recursiveAnchor":true,"$ref":"tree","unevaluatedProperties":false,
    "$defs":{"t":{"$id":"tree","$recursiveAnchor":true,"type":"object",
      "properties":{"value":true,"children":{"type":"array","items":{"$recursiveRef":"#"}}}}}})";
  EXPECT_TRUE(accepts_json(tree, R"({"children":[{"value":1}]})"));
  EXPECT_FALSE(accepts_json(tree, R"({"children":[{"valeu":1}]})"));
  // Without the anchor it is the resource itself.
  EXPECT_TRUE(accepts_json(R"({"type":"array","items":{"$recursiveRef":"#"}})", "[[],[[]]]"));
  EXPECT_FALSE(accepts_json(R"({"type":"array","items":{"$recursiveRef":"#"}})", "[1]"));
}

TEST(SchemaRefs, OtherDocumentsAreThoseThatWereGiven) {
  const SchemaDocuments documents{
      {"http://x/a.json",
       R"({"type":"object","properties":{"b":{"$ref":"b.json#/$defs/n"}},"required":["b"]})"},
      {"http://x/b.json", R"({"$defs":{"n":{"$anchor":"n","type":"integer"}}})"},
      {"http://x/bad.json", "{"},
  };
  const auto compile = [&](const char* schema) {
    return JsonMatcher(SchemaSets(load_schema(schema, {.documents = &documents})));
  };
  const JsonMatcher matcher = compile(R"({"items":{"$ref":"http://x/a.json"}})");
  EXPECT_LT(follow(matcher, R"([{"b":1}])"), 0);
  EXPECT_GE(follow(matcher, R"([{"b":"x"}])"), 0);
  EXPECT_GE(follow(matcher, R"([{}])"), 0);
  EXPECT_LT(follow(compile(R"({"$id":"http://x/y","$ref":"b.json#n"})"), "1"), 0);
  EXPECT_THROW(compile(R"({"$ref":"http://x/none.json"})"), Error);
  EXPECT_THROW(compile(R"({"$ref":"http://x/bad.json"})"), Error);
  EXPECT_THROW(compile(R"({"$ref":"http://x/b.json#/$defs/none"})"), Error);
}

TEST(SchemaRefs, UrisAreResolved) {
  EXPECT_EQ(resolve_uri("http://a/b/c.json", "d.json#x"), "http://a/b/d.json#x");
  EXPECT_EQ(resolve_uri("http://a/b/c.json", "./d.json#/./x"), "http://a/b/d.json#/./x");
  EXPECT_EQ(resolve_uri("http://a/b/c/d", "../e/./f"), "http://a/b/e/f");
  EXPECT_EQ(resolve_uri("http://a/b", "../../../c"), "http://a/c");
  EXPECT_EQ(resolve_uri("http://a/b/c", "."), "http://a/b/");
  EXPECT_EQ(resolve_uri("http://a/b/c", "/d"), "http://a/d");
  EXPECT_EQ(resolve_uri("http://a/b#x", "#y"), "http://a/b#y");
  EXPECT_EQ(resolve_uri("http://a", "b"), "http://a/b");
  EXPECT_EQ(resolve_uri("", "./b.json"), "b.json");
  EXPECT_EQ(resolve_uri("", "../b.json"), "b.json");
  EXPECT_EQ(resolve_uri("", "a/../b.json"), "b.json");
}

TEST(SchemaRefs, FoldersOfIds) {
  // The $id of a resource is taken once, also when it is entered by its address.
  const char* schema = R"({"$id":"http://x/","$ref":"f/","$defs":{
    "a":{"$id":"f/","type":"array","items":{"$ref":"g"}},"b":{"$id":"f/g","type":"null"}}})";
  EXPECT_TRUE(accepts_json(schema, "[null]"));
  EXPECT_FALSE(accepts_json(schema, "[1]"));
  // One below a keyword that nobody knows is none where there is a real one.
  const char* twice = R"({"$ref":"http://x/n","extra":{"$id":"http://x/n","type":"string"},
                          "$defs":{"n":{"$id":"http://x/n","type":"number"}}})";
  EXPECT_TRUE(accepts_json(twice, "1"));
  EXPECT_FALSE(accepts_json(twice, R"("a")"));
}

}  // namespace
}  // namespace butterfly::model::grammar
