#include "server/tools/tool_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace butterfly::server {
namespace {

using model::ToolStyle;

const std::vector<std::string> kNames = {"weather", "add"};

struct Parsed {
  std::string text;
  std::vector<std::string> calls;  // "name(arguments)"
};

Parsed parse(ToolStyle style, std::string_view text, size_t step) {
  const auto parser = make_tool_parser(style, kNames);
  ToolDelta all;
  for (size_t i = 0; i < text.size(); i += step) all.append(parser->push(text.substr(i, step)));
  all.append(parser->flush());
  Parsed parsed{all.text, {}};
  for (const ToolCall& call : all.calls) {
    EXPECT_TRUE(call.id.starts_with("call_"));
    parsed.calls.push_back(call.name + "(" + call.arguments + ")");
  }
  return parsed;
}

struct Case {
  ToolStyle style;
  const char* text;
  const char* words;
  std::vector<std::string> calls;
};

const Case kCases[] = {
    {ToolStyle::kHermes,
     "Let me see.<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bonn\"}}\n</tool_call>",
     "Let me see.",
     {"weather({\"city\":\"Bonn\"})"}},
    {ToolStyle::kHermes,
     "<tool_call>{\"name\":\"add\",\"arguments\":{\"a\":1}}</"
     "tool_call>\n<tool_call>{\"name\":\"add\",\"arguments\":{\"a\":2}}</tool_call>",
     "\n",
     {"add({\"a\":1})", "add({\"a\":2})"}},
    {ToolStyle::kHermes,
     "<tool_call>{\"name\":\"add\",\"arguments\":\"{\\\"a\\\":1}\"}",
     "",
     {"add({\"a\":1})"}},
    {ToolStyle::kHermes,
     "<tool_call>{\"name\":\"rm\",\"arguments\":{}}</tool_call>",
     "<tool_call>{\"name\":\"rm\",\"arguments\":{}}</tool_call>",
     {}},
    {ToolStyle::kHermes, "a < b <tool_", "a < b <tool_", {}},
    // Cut short: the reader gets what was written and no end that was not.
    {ToolStyle::kHermes,
     "So: <tool_call>{\"name\":\"add\",\"arguments\":{\"a\":",
     "So: <tool_call>{\"name\":\"add\",\"arguments\":{\"a\":",
     {}},
    {ToolStyle::kHermes,
     "<tool_call>{\"name\":\"rm\",\"arguments\":{}}</tool_",
     "<tool_call>{\"name\":\"rm\",\"arguments\":{}}</tool_",
     {}},
    {ToolStyle::kHermes,
     "<tool_call>not json</tool_call> and on",
     "<tool_call>not json</tool_call> and on",
     {}},
    {ToolStyle::kMistral,
     "[TOOL_CALLS][{\"name\": \"add\", \"arguments\": {\"a\": 1}}, {\"name\": \"weather\", \"arguments\": "
     "{}}]",
     "",
     {"add({\"a\":1})", "weather({})"}},
    {ToolStyle::kMistral, "plain [TOOL] words", "plain [TOOL] words", {}},
    {ToolStyle::kLlama3,
     "<|python_tag|>{\"name\": \"add\", \"parameters\": {\"a\": 1}}",
     "",
     {"add({\"a\":1})"}},
    {ToolStyle::kLlama3, "\n{\"name\": \"add\", \"parameters\": {}}", "", {"add({})"}},
    {ToolStyle::kLlama3, "Hello {there}", "Hello {there}", {}},
    {ToolStyle::kLlama3, "{\"answer\": 42}", "{\"answer\": 42}", {}},
    {ToolStyle::kLlama3, "<|python_tag|>print(1)", "<|python_tag|>print(1)", {}},
    {ToolStyle::kGeneric, "<tool_call>{\"name\":\"add\",\"arguments\":{}}</tool_call>", "", {"add({})"}},
};

TEST(ToolParser, FindsCallsWhateverThePieces) {
  for (const Case& c : kCases)
    for (const size_t step : {1u, 2u, 3u, 7u, 1000u}) {
      const Parsed parsed = parse(c.style, c.text, step);
      EXPECT_EQ(parsed.text, c.words) << c.text << " by " << step;
      EXPECT_EQ(parsed.calls, c.calls) << c.text << " by " << step;
    }
}

TEST(ToolParser, WordsAreGivenOutAtOnce) {
  const auto parser = make_tool_parser(ToolStyle::kHermes, kNames);
  EXPECT_EQ(parser->push("Hello").text, "Hello");
  EXPECT_EQ(parser->push(" <to").text, " ");
  EXPECT_EQ(parser->push("morrow>").text, "<tomorrow>");
}

// Nothing is lost: without a call the words are the text.
RC_GTEST_PROP(ToolParser, TextWithoutCallsStays, (const std::string& text)) {
  for (const ToolStyle style : {ToolStyle::kHermes, ToolStyle::kMistral, ToolStyle::kLlama3})
    for (const size_t step : {1u, 5u})
      RC_ASSERT(parse(style, "<t" + text + "[TOOL_", step).text == "<t" + text + "[TOOL_");
}

}  // namespace
}  // namespace butterfly::server
