// What a schema made to hurt may cost: steps, not seconds, so that the test is the same everywhere.
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "model/grammar/compile_budget.h"
#include "model/grammar/testing/small_vocabulary.h"

namespace butterfly::model::grammar {
namespace {

std::string repeat(int count, const std::function<std::string(int)>& part) {
  std::string out;
  for (int i = 0; i < count; ++i) out += (i ? "," : "") + part(i);
  return out;
}

std::string why_not(const std::string& schema) {
  try {
    SchemaSets sets(load_schema(schema));
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == Errc::kOutOfMemory || error.code() == Errc::kUnsupported) << error.what();
    EXPECT_TRUE(std::string_view(error.what()).starts_with("schema")) << error.what();
    return error.what();
  }
  return "compiled";
}

TEST(SchemaLimits, BudgetsNest) {
  EXPECT_NO_THROW(CompileBudget::spend(~uint64_t{0})) << "free where there is none";
  CompileBudget outer(100);
  {
    CompileBudget inner(60);
    CompileBudget::spend(60);
    EXPECT_THROW(CompileBudget::spend(1), Error);
  }
  CompileBudget::spend(40);
  EXPECT_THROW(CompileBudget::spend(1), Error);
}

TEST(SchemaLimits, ManyExpressionsEachWithinItsLimit) {
  const auto patterns = [](int count) {
    return R"({"allOf":[)" +
           repeat(count,
                  [](int i) {
                    return R"({"properties":{"p)" + std::to_string(i) +
                           R"(":{"pattern":"\\p{L}{3}[a-f]{0,9}x)" + std::to_string(i) + R"("}}})";
                  }) +
           "]}";
  };
  EXPECT_EQ(why_not(patterns(3)), "compiled");
  EXPECT_NE(why_not(patterns(4000)).find("steps"), std::string::npos);
}

TEST(SchemaLimits, ManyWaysToReadALargeObject) {
  // 256 alternatives of 2,000 names.
  const std::string names = repeat(2000, [](int i) { return "\"n" + std::to_string(i) + "\":{}"; });
  const std::string ways = repeat(8, [](int i) {
    return R"({"anyOf":[{"required":["a)" + std::to_string(i) + R"("]},{"required":["b)" + std::to_string(i) +
           R"("]}]})";
  });
  EXPECT_NE(why_not(R"({"properties":{)" + names + R"(},"allOf":[)" + ways + "]}").find("steps"),
            std::string::npos);
}

TEST(SchemaLimits, LongNamesInPlaces) {
  // Each of the places would have the long name in it.
  const std::string schema = R"({"properties":{")" + std::string(200'000, 'x') + R"(":{"properties":{)" +
                             repeat(8000, [](int i) { return "\"" + std::to_string(i) + "\":{}"; }) + "}}}}";
  const SchemaGraph graph = load_schema(schema);
  size_t bytes = 0;
  for (const SchemaNode& node : graph.nodes) bytes += node.pointer.size();
  EXPECT_LT(bytes, size_t{16} << 20);
}

TEST(SchemaLimits, ManyAnchors) {
  // Each resource on the way adds to what dynamic references depend on.
  const auto chain = [](int count) {
    const std::string resources = repeat(count, [&](int i) {
      const auto anchors = repeat(4, [&](int k) {
        return "\"" + std::to_string(k) + R"(":{"$dynamicAnchor":"a)" + std::to_string((i + k) % count) +
               "\"}";
      });
      return "\"" + std::to_string(i) + R"(":{"$id":"r)" + std::to_string(i) + R"(","$ref":"r)" +
             std::to_string((i + 1) % count) + R"(","$defs":{)" + anchors + "}}";
    });
    return R"({"$id":"http://x/","$ref":"r0","$defs":{)" + resources + "}}";
  };
  EXPECT_EQ(why_not(chain(50)), "compiled");
  EXPECT_NE(why_not(chain(2500)).find("steps"), std::string::npos);
}

TEST(SchemaLimits, WhatIsKeptHasASize) {
  const auto bytes = [](const std::string& schema) { return SchemaSets(load_schema(schema)).bytes(); };
  const size_t small = bytes(R"({"type":"string"})");
  const size_t large =
      bytes(R"({"enum":[)" + repeat(500, [](int i) { return "\"value" + std::to_string(i) + "\""; }) + "]}");
  EXPECT_LT(small, 20'000u);
  EXPECT_GT(large, 10 * 500u);
  EXPECT_LT(large, 2'000'000u);
}

}  // namespace
}  // namespace butterfly::model::grammar
