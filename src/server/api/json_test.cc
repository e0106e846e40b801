#include "server/api/json.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/testing/source_tree.h"
#include "server/api/api_error.h"

namespace butterfly::server {
namespace {

using ::testing::HasSubstr;

std::string refusal(std::string_view text) {
  try {
    parse_json(text);
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    return error.what();
  }
  return "accepted";
}

TEST(ParseJson, KeepsTheOrderOfKeys) {
  EXPECT_EQ(to_text(parse_json(R"({"b":1,"a":[2.5,"x",null,true]})")), R"({"b":1,"a":[2.5,"x",null,true]})");
}

TEST(ParseJson, DepthIsBoundedBeforeAnythingIsBuilt) {
  EXPECT_EQ(refusal(std::string(64, '[') + std::string(64, ']')), "accepted");
  EXPECT_THAT(refusal(std::string(65, '[') + std::string(65, ']')), HasSubstr("nested deeper than 64"));
  EXPECT_THAT(refusal(std::string(1'000'000, '[')), HasSubstr("byte 64: nested deeper"));
  std::string objects;
  for (int i = 0; i < 100; ++i) objects += "{\"a\":";
  EXPECT_THAT(refusal(objects), HasSubstr("nested deeper"));
  EXPECT_EQ(refusal("\"" + std::string(1000, '[') + "\""), "accepted");
  EXPECT_EQ(refusal("\"\\\"" + std::string(1000, '{') + "\""), "accepted");
}

TEST(ParseJson, TheNumberOfValuesIsBounded) {
  std::string many = "[0";
  for (size_t i = 1; i < kJsonValuesMax; ++i) many += ",0";
  EXPECT_THAT(refusal(many + "]"), HasSubstr("values, at most"));
}

TEST(ParseJson, TheNumberOfKeysOfAnObjectIsBounded) {
  std::string many = "{";
  for (size_t i = 0; i < kJsonKeysMax; ++i) many += fmt::format("\"k{}\":[{{}}],", i);
  many.back() = '}';
  const Json json = parse_json(many);
  EXPECT_EQ(to_text(json), many);
  many.back() = ',';
  EXPECT_THAT(refusal(many + "\"more\":1}"), HasSubstr("more than 16384 keys"));
}

TEST(ParseJson, SaysWhatIsWrong) {
  EXPECT_THAT(refusal(""), HasSubstr("empty"));
  EXPECT_THAT(refusal("{\"a\":\xff}"), HasSubstr("byte 5 is not UTF-8"));
  EXPECT_THAT(refusal("\"\xed\xa0\x80\""), HasSubstr("byte 1 is not UTF-8"));
  EXPECT_THAT(refusal(R"({"a":1,"b":2,"a":3})"), HasSubstr("'a' comes twice"));
  EXPECT_THAT(refusal(R"({"a":1)"), HasSubstr("unexpected end of input"));
  EXPECT_THAT(refusal("{'a':1}"), HasSubstr("column 2"));
  EXPECT_THAT(refusal("1e999"), HasSubstr("not JSON"));
}

// The public suite: what must be accepted is, what must be refused is (but for depth, which is ours to
// bound).
TEST(ParseJson, PublicSuite) {
  const std::filesystem::path folder = shared_data("json/JSONTestSuite/test_parsing");
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no ../shared/data/json/JSONTestSuite";
  size_t accepted = 0, refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const bool ok = refusal(text) == "accepted";
    // A key twice is allowed by the grammar, and refused here on purpose.
    if (name.starts_with("y_") && name.find("duplicated_key") == std::string::npos) {
      EXPECT_TRUE(ok) << name << ": " << refusal(text);
      ++accepted;
    }
    if (name.starts_with("n_")) {
      EXPECT_FALSE(ok) << name;
      ++refused;
    }
  }
  EXPECT_GT(accepted, 20u);
  EXPECT_GT(refused, 20u);
}

}  // namespace
}  // namespace butterfly::server
