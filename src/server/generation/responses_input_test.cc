#include "server/generation/responses_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "server/api/api_error.h"

namespace butterfly::server {
namespace {

using ::testing::HasSubstr;

Json json(const char* text) { return json_of_text<Json>(text); }

std::string refusal(const char* tools) {
  try {
    const Json list = json(tools);
    tools_of_response(&list);
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    return error.what();
  }
  return "";
}

TEST(ResponsesInput, ToolsOfNamespacesHaveFlatNames) {
  const Json tools = json(
      R"([{"type":"function","name":"shell","strict":false,"parameters":{"type":"object"}},
          {"type":"web_search"},
          {"type":"namespace","name":"mcp__files","description":"Files.","tools":[
             {"type":"function","name":"read","description":"Reads.","strict":true,"defer_loading":true,"parameters":{}},
             {"type":"custom","name":"patch"}]},
          {"type":"namespace","name":"mcp__web__","tools":[{"type":"function","name":"read"}]}])");
  const ResponseTools out = tools_of_response(&tools);
  EXPECT_EQ(out.list, json(R"([{"type":"function","function":{"name":"shell","parameters":{"type":"object"}}},
                     {"type":"function","function":{"name":"mcp__files__read","description":"Reads.","parameters":{}}},
                     {"type":"function","function":{"name":"mcp__web__read"}}])"));
  ASSERT_EQ(out.spaces.size(), 2u);
  EXPECT_EQ(out.spaces.at("mcp__files__read"),
            std::make_pair(std::string("mcp__files"), std::string("read")));
  EXPECT_EQ(out.spaces.at("mcp__web__read"), std::make_pair(std::string("mcp__web__"), std::string("read")));
}

TEST(ResponsesInput, NamespacesThatAreNoneAreRefusedWithTheirPlace) {
  EXPECT_THAT(refusal(R"([{"type":"namespace","tools":[]}])"), HasSubstr("tools[0].name"));
  EXPECT_THAT(refusal(R"([{"type":"namespace","name":"a","tools":{}}])"), HasSubstr("tools[0].tools"));
  EXPECT_THAT(refusal(R"([{"type":"namespace","name":"a","tools":[7]}])"), HasSubstr("tools[0].tools[0]"));
  EXPECT_THAT(refusal(R"([{"type":"namespace","name":"a","tools":[{"type":"function"}]}])"),
              HasSubstr("tools[0].tools[0].name"));
  std::string many = R"([{"type":"namespace","name":"a","tools":[)";
  for (int i = 0; i < 513; ++i) many += (i == 0 ? "" : ",") + (R"({"name":"f)" + std::to_string(i) + R"("})");
  EXPECT_THAT(refusal((many + "]}]").c_str()), HasSubstr("more than 512"));
}

TEST(ResponsesInput, CallsOfNamespacesAndWordsOfOtherAgentsAreRead) {
  const Json messages = messages_of_input(json(
                                              R"([{"role":"user","content":"Go"},
              {"type":"additional_tools","role":"developer","tools":[]},
              {"type":"function_call","call_id":"c","namespace":"mcp__files","name":"read","arguments":"{}"},
              {"type":"function_call_output","call_id":"c","output":[
                 {"type":"input_text","text":"abc"},{"type":"input_image","image_url":"data:image/png;base64,AA"}]},
              {"type":"agent_message","author":"/lead/a","recipient":"/lead","content":[
                 {"type":"input_text","text":"Done."},{"type":"encrypted_content","encrypted_content":"x"}]},
              {"type":"context_compaction","encrypted_content":"x"}])"),
                                          "");
  EXPECT_EQ(messages, json(R"([{"role":"user","content":"Go"},
                     {"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function",
                       "function":{"name":"mcp__files__read","arguments":"{}"}}]},
                     {"role":"tool","tool_call_id":"c","content":[{"type":"input_text","text":"abc"},
                       {"type":"text","text":"[input_image: not shown, this model reads text only]"}]},
                     {"role":"user","content":"/lead/a to /lead: Done."}])"));
}

}  // namespace
}  // namespace butterfly::server
