#include "server/generation/anthropic_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "server/api/api_error.h"

namespace butterfly::server {
namespace {

using ::testing::HasSubstr;

Json json(const char* text) { return json_of_text<Json>(text); }

TEST(AnthropicInput, BlocksBecomeMessagesThatTemplatesKnow) {
  const Json system = json(
      R"([{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1; cch=a7;"},
          {"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}])");
  const Json messages = json(
      R"([{"role":"user","content":"Light?"},
          {"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"text","text":"Yes."},
             {"type":"tool_use","id":"toolu_1","name":"light","input":{"on":true}}]},
          {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","is_error":true,
             "content":[{"type":"text","text":"broken"}]},{"type":"text","text":"And now?"}]}])");
  EXPECT_EQ(chat_messages_of(&system, messages),
            json(R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Light?"},
               {"role":"assistant","content":"Yes.","reasoning_content":"Hm.","tool_calls":[{"id":"toolu_1","type":"function",
                "function":{"name":"light","arguments":{"on":true}}}]},
               {"role":"tool","tool_call_id":"toolu_1","content":"Error: broken"},{"role":"user","content":"And now?"}])"));
}

TEST(AnthropicInput, PicturesThatToolsReadAndWorkOfOtherServersAreNoEnd) {
  const Json messages = json(
      R"([{"role":"assistant","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{}},
             {"type":"web_search_tool_result","tool_use_id":"s","content":[]},
             {"type":"text","text":"Found."},{"type":"tool_use","id":"t","name":"Read","input":{}}]},
          {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[
             {"type":"text","text":"a.png"},{"type":"image","source":{"type":"base64","data":"AA"}}]}]}])");
  EXPECT_EQ(chat_messages_of(nullptr, messages),
            json(R"([{"role":"assistant","content":"Found.","tool_calls":[{"id":"t","type":"function",
                       "function":{"name":"Read","arguments":{}}}]},
                     {"role":"tool","tool_call_id":"t",
                      "content":"a.png\n[image: not shown, this model reads text only]"}])"));
}

TEST(AnthropicInput, RemindersBetweenTurnsJoinTheUser) {
  const Json messages = json(
      R"([{"role":"user","content":"Hi"},{"role":"system","content":"It is late."},{"role":"assistant","content":"Yes"},
          {"role":"system","content":[{"type":"text","text":"Stop soon."}]}])");
  EXPECT_EQ(chat_messages_of(nullptr, messages),
            json(R"([{"role":"user","content":"Hi\nIt is late."},{"role":"assistant","content":"Yes"},
                     {"role":"user","content":"Stop soon."}])"));
}

TEST(AnthropicInput, WhatNobodyHereCanReadIsRefusedWithItsPlace) {
  const auto refusal = [](const char* messages) -> std::string {
    try {
      chat_messages_of(nullptr, json(messages));
    } catch (const ApiError& error) {
      EXPECT_EQ(error.status, 400);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(R"([{"role":"user","content":[{"type":"image","source":{}}]}])"),
              HasSubstr("messages[0].content[0].type: 'image'"));
  EXPECT_THAT(refusal(R"([{"role":"user","content":[{"type":"tool_use","id":"a","name":"b"}]}])"),
              HasSubstr("of the user"));
  EXPECT_THAT(refusal(R"([{"role":"robot","content":"x"}])"), HasSubstr("messages[0].role"));
  EXPECT_THAT(refusal(R"([{"role":"user","content":7}])"), HasSubstr("messages[0].content"));
  EXPECT_THAT(refusal(R"([{"role":"user","content":[{"type":"text"}]}])"),
              HasSubstr("messages[0].content[0].text"));
}

TEST(AnthropicInput, ToolsAndChoices) {
  const Json tools = json(
      R"([{"name":"light","description":"d","input_schema":{"type":"object"}},{"type":"web_search_20250305","name":"web_search"}])");
  EXPECT_EQ(
      chat_tools_of(&tools),
      json(
          R"([{"type":"function","function":{"name":"light","description":"d","parameters":{"type":"object"}}}])"));
  const Json any = json(R"({"type":"any"})"), one = json(R"({"type":"tool","name":"light"})");
  EXPECT_EQ(chat_tool_choice_of(&any), Json("required"));
  EXPECT_EQ(chat_tool_choice_of(&one)["function"]["name"], "light");
  EXPECT_TRUE(chat_tool_choice_of(nullptr).is_null());
}

}  // namespace
}  // namespace butterfly::server
