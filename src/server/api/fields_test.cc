#include "server/api/fields.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_text.h"
#include "base/testing/source_tree.h"
#include "server/api/api_error.h"

namespace butterfly::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const FieldTable& table, const char* text, std::string* param = nullptr) {
  const Json json = parse_json(text);
  try {
    const Fields fields(json, table);
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    if (param != nullptr) *param = error.param;
    return error.what();
  }
  return "accepted";
}

// A request with what is required, and this value.
bool passes(const FieldTable& table, const FieldRow& row, const Json& value) {
  Json body = Json::object();
  for (const FieldRow& needed : table.own)
    if (needed.fallback == "required")
      body[needed.name] = needed.type == FieldType::kArray ? Json::array({1}) : Json("x");
  body[row.name] = value;
  try {
    const Fields fields(body, table);
  } catch (const ApiError& error) {
    EXPECT_EQ(error.param, row.name);
    return false;
  }
  return true;
}

TEST(FieldTable, RowsAreSound) {
  for (const FieldTable* table : field_tables()) {
    std::set<std::string_view> names;
    for (const auto rows : {table->own, table->shared})
      for (const FieldRow& row : rows) {
        EXPECT_TRUE(names.insert(row.name).second) << table->name << " " << row.name;
        EXPECT_LE(row.min, row.max) << row.name;
        EXPECT_FALSE(row.help.empty()) << row.name;
        if (row.fallback.empty() || row.fallback == "required") continue;
        // What absent means has to pass its own row.
        EXPECT_TRUE(passes(*table, row, json_of_text<Json>(row.fallback))) << table->name << " " << row.name;
      }
  }
}

// Each row of each table refuses another type, and values just outside its bounds.
TEST(FieldTable, EveryRowRefusesWhatItShould) {
  size_t tried = 0;
  for (const FieldTable* table : field_tables())
    for (const auto rows : {table->own, table->shared})
      for (const FieldRow& row : rows) {
        if (row.type == FieldType::kAny) continue;
        const auto with = [&](const Json& value) { return passes(*table, row, value); };
        EXPECT_FALSE(with(row.type == FieldType::kBoolean ? Json(1) : Json(true)))
            << table->name << " " << row.name;
        if (row.type == FieldType::kInteger) {
          EXPECT_FALSE(with(0.5)) << row.name;
        }
        if (row.type == FieldType::kInteger || row.type == FieldType::kNumber) {
          EXPECT_TRUE(with(row.min)) << row.name;
          EXPECT_TRUE(with(row.max)) << row.name;
          EXPECT_FALSE(with(row.min - 1)) << row.name;
          EXPECT_FALSE(with(row.max + std::max(1.0, row.max * 1e-12))) << row.name;
          EXPECT_FALSE(with(1e300)) << row.name;
          EXPECT_FALSE(with(-1e300)) << row.name;
        }
        if (row.type == FieldType::kString && row.max < 1e6) {
          EXPECT_FALSE(with(std::string(static_cast<size_t>(row.max) + 1, 'x'))) << row.name;
        }
        ++tried;
      }
  EXPECT_GT(tried, 80u);
}

TEST(Fields, NamesFieldExpectedAndFound) {
  std::string param;
  EXPECT_THAT(refusal(kChatFields, R"({"messages":[{}],"temperature":"hot"})", &param),
              AllOf(HasSubstr("temperature: expected number"), HasSubstr("\"hot\"")));
  EXPECT_EQ(param, "temperature");
  EXPECT_THAT(refusal(kChatFields, R"({"messages":[{}],"n":1000000})"),
              HasSubstr("n: expected 1 to 32, found 1000000"));
  EXPECT_THAT(refusal(kChatFields, R"({"messages":[{}],"n":-1})"), HasSubstr("found -1"));
  EXPECT_THAT(refusal(kChatFields, R"({"messages":[]})"),
              HasSubstr("messages: expected a size of 1 to 10000, found 0"));
  EXPECT_THAT(refusal(kChatFields, R"({})"), HasSubstr("messages: is missing"));
  EXPECT_THAT(refusal(kChatFields, R"({"messages":null})"), HasSubstr("messages: is missing"));
  EXPECT_THAT(refusal(kChatFields, R"([1])"), HasSubstr("expected a JSON object, found an array of 1"));
  EXPECT_THAT(refusal(kChatFields, R"({"messages":[{}],"stop":["a",1]})"),
              HasSubstr("stop: expected string or strings"));
  EXPECT_EQ(refusal(kChatFields, R"({"messages":[{}],"something_new":{"a":1},"temperature":null,"n":2.0})"),
            "accepted");
}

TEST(Fields, ValuesAndDefaults) {
  const Json json = parse_json(R"({"messages":[{}],"top_k":3.0,"stop":"x","seed":null,"stream":true})");
  const Fields fields(json, kChatFields);
  EXPECT_EQ(fields.integer("top_k"), 3);
  EXPECT_EQ(fields.number("temperature"), 0.8);
  EXPECT_EQ(fields.integer("n"), 1);
  EXPECT_FALSE(fields.maybe_integer("seed").has_value());
  EXPECT_TRUE(fields.boolean("stream"));
  EXPECT_FALSE(fields.boolean("logprobs"));
  EXPECT_TRUE(fields.boolean("parallel_tool_calls"));
  EXPECT_EQ(fields.strings("stop"), std::vector<std::string>{"x"});
  const Json empty = parse_json(R"({"input":"x"})");
  EXPECT_EQ(Fields(empty, kEmbeddingFields).string("encoding_format"), "float");
}

TEST(FieldTable, TheManualHasEveryRow) {
  std::ifstream in(source_path("docs/serve.md"));
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  // On a mismatch the right text is printed: put it into the page.
  EXPECT_TRUE(page.find(fields_manual()) != std::string::npos) << fields_manual();
}

}  // namespace
}  // namespace butterfly::server
