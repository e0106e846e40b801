#include "base/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace butterfly {
namespace {

TEST(JsonText, ReadsAndWritesBothKindsOfObjects) {
  const char* text = R"({"b":[1,2.5,"x"],"a":null})";
  EXPECT_EQ(json_text(json_of_text<nlohmann::ordered_json>(text)), text);
  EXPECT_EQ(json_text(json_of_text<nlohmann::json>(text)), R"({"a":null,"b":[1,2.5,"x"]})");
  EXPECT_EQ(json_text(json_of_text<nlohmann::json>("[1]"), 2), "[\n  1\n]");
}

TEST(JsonText, WhatIsNotJsonThrowsOrGivesNone) {
  EXPECT_THROW(json_of_text<nlohmann::json>("{"), nlohmann::json::parse_error);
  EXPECT_TRUE(json_of_text_or_none<nlohmann::json>("{").is_discarded());
  EXPECT_TRUE(json_of_text_or_none<nlohmann::ordered_json>("1 2").is_discarded());
  EXPECT_FALSE(json_of_text_or_none<nlohmann::ordered_json>(" 1 ").is_discarded());
}

TEST(JsonText, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(json_text(nlohmann::json("a\xff")), "\"a\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace butterfly
