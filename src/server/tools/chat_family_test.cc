// What models write, in the forms of their families: by hand, and by the templates that were published with
// them.
#include "server/tools/chat_family.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/testing/source_tree.h"
#include "model/chat_template/chat_template.h"
#include "model/chat_template/knows_tools.h"
#include "server/api/json.h"

namespace butterfly::server {
namespace {

namespace fs = std::filesystem;

const ToolSpecs kTools = {
    {"weather",
     R"({"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},"exact":{"type":"boolean"},
         "tags":{"type":"array"},"note":{"type":"string"}},"required":["city"]})"},
    {"add", ""}};

struct Parsed {
  std::string reasoning, text;
  std::vector<std::string> calls;  // "name(arguments)"
};

Parsed parse(const OutputForm& form, std::string_view text, size_t step, bool cut = false) {
  const auto parser = make_output_parser(form);
  ParsedText all;
  for (size_t i = 0; i < text.size(); i += step) all.append(parser->push(text.substr(i, step)));
  all.append(parser->flush(cut));
  Parsed parsed{all.reasoning, all.text, {}};
  for (const ToolCall& call : all.calls) {
    EXPECT_FALSE(call.id.empty());
    parsed.calls.push_back(call.name + "(" + call.arguments + ")");
  }
  return parsed;
}

OutputForm form_of(std::string_view family) {
  OutputForm form;
  form.family = &family_by_name(family);
  form.calls = true;
  form.tools = kTools;
  return form;
}

struct Case {
  const char* family;
  const char* text;
  const char* words;
  std::vector<std::string> calls;
};

const Case kCases[] = {
    {"hermes",
     "Let me see.<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bonn\"}}\n</tool_call>",
     "Let me see.",
     {"weather({\"city\":\"Bonn\"})"}},
    {"hermes",
     "<tool_call>{\"name\":\"add\",\"arguments\":{\"a\":1}}</"
     "tool_call>\n<tool_call>{\"name\":\"add\",\"arguments\":{\"a\":2}}</tool_call>",
     "\n",
     {"add({\"a\":1})", "add({\"a\":2})"}},
    {"hermes", "<tool_call>{\"name\":\"add\",\"arguments\":\"{\\\"a\\\":1}\"}", "", {"add({\"a\":1})"}},
    {"hermes",
     "<tool_call>{\"name\":\"rm\",\"arguments\":{}}</tool_call>",
     "<tool_call>{\"name\":\"rm\",\"arguments\":{}}</tool_call>",
     {}},
    {"hermes", "a < b <tool_", "a < b <tool_", {}},
    // Ended in the middle: the reader gets what was written and no end that was not.
    {"hermes",
     "So: <tool_call>{\"name\":\"add\",\"arguments\":{\"a\":",
     "So: <tool_call>{\"name\":\"add\",\"arguments\":{\"a\":",
     {}},
    {"hermes", "<tool_call>not json</tool_call> and on", "<tool_call>not json</tool_call> and on", {}},
    {"taught", "<tool_call>{\"name\":\"add\",\"arguments\":{}}</tool_call>", "", {"add({})"}},
    {"mistral",
     "[TOOL_CALLS][{\"name\": \"add\", \"arguments\": {\"a\": 1}}, {\"name\": \"weather\", \"arguments\": "
     "{}}]",
     "",
     {"add({\"a\":1})", "weather({})"}},
    {"mistral",
     "Yes.[TOOL_CALLS]add[ARGS]{\"a\": 1}[TOOL_CALLS]weather[CALL_ID]123456789[ARGS]{\"city\": \"Bonn\"}",
     "Yes.",
     {"add({\"a\":1})", "weather({\"city\":\"Bonn\"})"}},
    {"mistral", "plain [TOOL] words", "plain [TOOL] words", {}},
    {"llama", "<|python_tag|>{\"name\": \"add\", \"parameters\": {\"a\": 1}}", "", {"add({\"a\":1})"}},
    {"llama", "\n{\"name\": \"add\", \"parameters\": {}}", "", {"add({})"}},
    {"llama",
     "[add(a=1), weather(city='Bonn', days=2)]",
     "",
     {"add({\"a\":1})", "weather({\"city\":\"Bonn\",\"days\":2})"}},
    {"llama", "Hello {there}", "Hello {there}", {}},
    {"llama", "{\"answer\": 42}", "{\"answer\": 42}", {}},
    {"llama", "<|python_tag|>print(1)", "<|python_tag|>print(1)", {}},
    {"qwen_xml",
     "I "
     "look.\n<tool_call>\n<function=weather>\n<parameter=city>\nNew\nYork\n</"
     "parameter>\n<parameter=days>\n3\n"
     "</parameter>\n<parameter=exact>\ntrue\n</parameter>\n</function>\n</tool_call>",
     "I look.\n",
     {"weather({\"city\":\"New\\nYork\",\"days\":3,\"exact\":true})"}},
    // A value may look like a number, and may hold marks.
    {"qwen_xml",
     "<tool_call>\n<function=weather>\n<parameter=city>\n53</function>\n</parameter>\n</function>\n</"
     "tool_call>",
     "",
     {"weather({\"city\":\"53</function>\"})"}},
    {"glm",
     "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>12</arg_value>\n<arg_key>tags</arg_key>\n"
     "<arg_value>[\"a\", 1]</arg_value>\n</tool_call>",
     "",
     {"weather({\"city\":\"12\",\"tags\":[\"a\",1]})"}},
    {"glm", "<tool_call>add\n</tool_call>", "", {"add({})"}},
    {"deepseek",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{\"a\": "
     "1}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": "
     "\"Bonn\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "",
     {"add({\"a\":1})", "weather({\"city\":\"Bonn\"})"}},
    {"kimi",
     "So.<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{\"a\": "
     "1}<|tool_call_end|><|tool_call_begin|>functions.weather:1<|tool_call_argument_begin|>{}<|tool_call_end|"
     ">"
     "<|tool_calls_section_end|>",
     "So.",
     {"add({\"a\":1})", "weather({})"}},
    {"lfm2",
     "<|tool_call_start|>[weather(city=\"Bonn\", days=2, exact=True, tags=['a', {'b': "
     "None}])]<|tool_call_end|>Wait.",
     "Wait.",
     {"weather({\"city\":\"Bonn\",\"days\":2,\"exact\":true,\"tags\":[\"a\",{\"b\":null}]})"}},
    {"lfm2",
     "<|tool_call_start|>[{\"name\": \"add\", \"arguments\": {\"a\": 1}}]<|tool_call_end|>",
     "",
     {"add({\"a\":1})"}},
    {"nemotron",
     "<TOOLCALL>[{\"name\": \"add\", \"arguments\": {\"a\": 1}}, {\"name\": \"add\", \"arguments\": "
     "{}}]</TOOLCALL>",
     "",
     {"add({\"a\":1})", "add({})"}},
    {"granite", "<|tool_call|>[{\"name\": \"add\", \"arguments\": {\"a\": 1}}]", "", {"add({\"a\":1})"}},
    {"firefunction", " functools[{\"name\": \"add\", \"arguments\": {\"a\": 1}}]", " ", {"add({\"a\":1})"}},
    {"gemma",
     "<start_function_call>call:weather{city:<escape>Bonn, "
     "{Rhein}<escape>,days:3,tags:[<escape>a<escape>,1],exact:true}"
     "<end_function_call>",
     "",
     {"weather({\"city\":\"Bonn, {Rhein}\",\"days\":3,\"tags\":[\"a\",1],\"exact\":true})"}},
    {"minimax",
     "<minimax:tool_call>\n<invoke name=\"weather\">\n<parameter name=\"city\">7</parameter>\n<parameter "
     "name=\"days\">7</parameter>\n</invoke>\n</minimax:tool_call>",
     "",
     {"weather({\"city\":\"7\",\"days\":7})"}},
    {"harmony",
     "<|channel|>analysis<|message|>Need a call.<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.weather "
     "<|constrain|>json<|message|>{\"city\":\"Bonn\"}<|call|>",
     "",
     {"weather({\"city\":\"Bonn\"})"}},
    {"harmony",
     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hello < you|>",
     "Hello < you|>",
     {}},
};

TEST(ChatFamily, FindsCallsWhateverThePieces) {
  std::set<std::string_view> seen;
  for (const Case& c : kCases) {
    seen.insert(c.family);
    for (const size_t step : {1u, 2u, 3u, 7u, 1000u}) {
      const Parsed parsed = parse(form_of(c.family), c.text, step);
      EXPECT_EQ(parsed.text, c.words) << c.text << " by " << step;
      EXPECT_EQ(parsed.calls, c.calls) << c.text << " by " << step;
    }
  }
  for (const ChatFamily* family : chat_families()) EXPECT_TRUE(seen.contains(family->name)) << family->name;
}

TEST(ChatFamily, ACallThatIsCutIsNeitherWordsNorACall) {
  for (const Case& c : kCases) {
    if (c.calls.empty() || std::string_view(c.family) == "llama") continue;
    const std::string_view text = c.text;
    const size_t at =
        text.find(c.family == std::string_view("harmony") ? "{" : form_of(c.family).family->mark);
    const std::string_view front = text.substr(0, at + form_of(c.family).family->mark.size() + 1);
    const Parsed parsed = parse(form_of(c.family), front, 3, true);
    EXPECT_THAT(parsed.calls, ::testing::IsEmpty()) << front;
    EXPECT_TRUE(std::string_view(c.words).starts_with(parsed.text)) << front << " gave " << parsed.text;
  }
}

TEST(ChatFamily, WordsAreGivenOutAtOnce) {
  const auto parser = make_output_parser(form_of("hermes"));
  EXPECT_EQ(parser->push("Hello").text, "Hello");
  EXPECT_EQ(parser->push(" <to").text, " ");
  EXPECT_EQ(parser->push("morrow>").text, "<tomorrow>");
}

// Nothing is lost: without a call the words are the text.
RC_GTEST_PROP(ChatFamily, TextWithoutCallsStays, (const std::string& text)) {
  for (const ChatFamily* family : chat_families()) {
    if (family->reasons_itself) continue;
    for (const size_t step : {1u, 5u})
      RC_ASSERT(parse(form_of(family->name), "<t" + text + "[TOOL_", step).text == "<t" + text + "[TOOL_");
  }
}

// Whatever a model writes, nothing breaks.
RC_GTEST_PROP(ChatFamily, AnyTextIsRead, (const std::vector<uint8_t>& choices)) {
  for (const Case& c : kCases) {
    // The case's own text with pieces doubled, left out and exchanged.
    std::string text;
    const std::string_view source = c.text;
    for (size_t i = 0, k = 0; i < source.size(); ++i) {
      const uint8_t choice = choices.empty() ? 0 : choices[k++ % choices.size()];
      if (choice % 16 == 1) continue;
      text += source[i];
      if (choice % 16 == 2) text += source[(i * 7 + choice) % source.size()];
    }
    const Parsed whole = parse(form_of(c.family), text, 1000), single = parse(form_of(c.family), text, 1);
    RC_ASSERT(whole.calls == single.calls);
    RC_ASSERT(whole.text == single.text);
  }
}

TEST(Reasoning, IsSplitOff) {
  OutputForm form = form_of("hermes");
  form.reasoning = reasoning_marks_of("... </think> ...");
  ASSERT_NE(form.reasoning, nullptr);
  struct Row {
    bool inside;
    const char *text, *reasoning, *words;
  };
  const Row rows[] = {
      {false, "<think>\nHm. So\n</think>\n\nHello <b>", "Hm. So", "Hello <b>"},
      {true, "Hm. </thin k>\n</think>Hello", "Hm. </thin k>", "Hello"},
      {false, "Hello <think>x</think>", "", "Hello <think>x</think>"},
      {false, " \n Hello", "", " \n Hello"},
      {true, "never closed ", "never closed", ""},
      {false, "<think></think>\n\nHello", "", "Hello"},
      {false, "<thi", "", "<thi"},
      {true, "</think>", "", ""},
  };
  for (const Row& row : rows)
    for (const size_t step : {1u, 2u, 5u, 1000u}) {
      form.inside = row.inside;
      const Parsed parsed = parse(form, row.text, step);
      EXPECT_EQ(parsed.reasoning, row.reasoning) << row.text << " by " << step;
      EXPECT_EQ(parsed.text, row.words) << row.text << " by " << step;
    }
  form.inside = false;
  const Parsed both = parse(form, "<think>a<tool_call>b</think><tool_call>{\"name\":\"add\"}</tool_call>", 3);
  EXPECT_EQ(both.reasoning, "a<tool_call>b") << "no call inside of it";
  EXPECT_THAT(both.calls, ::testing::ElementsAre("add({})"));
  const Parsed channels = parse(form_of("harmony"), kCases[std::size(kCases) - 1].text, 4);
  EXPECT_EQ(channels.reasoning, "Hm.");
  EXPECT_EQ(reasoning_marks_of("{{ messages }}"), nullptr);
}

// A published template writes down a call as its model was taught to: what it writes must be found.
struct Published {
  const char* file;
  const char* family;
  bool writes_calls;
};
const Published kPublished[] = {
    {"GLM-4.6.jinja", "glm", true},
    {"HuggingFaceTB-SmolLM3-3B.jinja", "taught", false},  // names its list of tools otherwise
    {"Kimi-K2-Instruct.jinja", "kimi", true},
    {"LFM2-8B-A1B.jinja", "lfm2", false},
    {"MiniMax-M2.jinja", "minimax", true},
    {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use.jinja", "hermes", true},
    {"Qwen-Qwen2.5-7B-Instruct.jinja", "hermes", true},
    {"Qwen-Qwen3-0.6B.jinja", "hermes", true},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja", "deepseek", true},
    {"fireworks-ai-llama-3-firefunction-v2.jinja", "firefunction", false},
    {"google-gemma-2-2b-it.jinja", "taught", false},
    {"ibm-granite-granite-3.3-2B-Instruct.jinja", "granite", false},
    {"llama-cpp-rwkv-world.jinja", "taught", false},
    {"meta-llama-Llama-3.1-8B-Instruct.jinja", "llama", true},
    {"microsoft-Phi-3.5-mini-instruct.jinja", "taught", false},
    {"mistralai-Mistral-Nemo-Instruct-2407.jinja", "mistral", true},
    {"openai-gpt-oss-120b.jinja", "harmony", true},
};

const char* const kArguments =
    R"({"city":"Bonn","days":3,"exact":true,"tags":["a","b"],"note":"two\nlines"})";

// What the assistant's turn with a call looks like; empty: the template cannot write one.
std::string written_call(const std::string& source, const std::string& id = "abcdefghi") {
  const auto chat = model::ChatTemplate::compile(source);
  model::ChatTemplateOptions options;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  const std::string tools =
      R"([{"type":"function","function":{"name":"weather","description":"d","parameters":)" +
      kTools[0].parameters + "}}]";
  const std::string user = R"({"role":"user","content":"Hi"})";
  const std::string call = R"({"role":"assistant","content":"","tool_calls":[{"id":")" + id +
                           R"(","type":"function","function":{"name":"weather","arguments":)" +
                           std::string(kArguments) + "}}]}";
  const std::string before = chat.render("[" + user + "]", tools, options).text;
  options.add_generation_prompt = false;
  const std::string without = chat.render("[" + user + "]", tools, options).text;
  const std::string with = chat.render("[" + user + "," + call + "]", tools, options).text;
  std::string turn = with.substr(with.starts_with(before) ? before.size() : without.size());
  for (const char* end : {"</s>", "\n", "<|im_end|>", "<|eot_id|>", "<|eom_id|>"})
    while (turn.ends_with(end)) turn.erase(turn.size() - std::string_view(end).size());
  return turn;
}

TEST(ChatFamily, PublishedTemplatesWriteWhatIsRead) {
  const fs::path folder = shared_data() / "chat-templates/llamacpp";
  if (!fs::exists(folder)) GTEST_SKIP() << "no " << folder;
  for (const Published& published : kPublished) {
    std::ifstream in(folder / published.file);
    const std::string source{std::istreambuf_iterator<char>(in), {}};
    ASSERT_FALSE(source.empty()) << published.file;
    EXPECT_EQ(family_of(source).name, published.family) << published.file;
    if (!published.writes_calls) continue;
    const std::string turn = written_call(source);
    const Parsed parsed = parse(form_of(published.family), turn, 3);
    ASSERT_EQ(parsed.calls.size(), 1u) << published.file << " wrote " << turn;
    EXPECT_EQ(parsed.calls[0], "weather(" + std::string(kArguments) + ")")
        << published.file << " wrote " << turn;
  }
}

TEST(ChatFamily, NewerPublishedTemplates) {
  const fs::path file = shared_data() / "chat-templates/huggingface-js/e2e.json";
  if (!fs::exists(file)) GTEST_SKIP() << "no " << file;
  const std::map<std::string, const char*> families = {
      {"Qwen/Qwen3.5-4B", "qwen_xml"}, {"moonshotai/Kimi-K2-Thinking", "kimi"}, {"zai-org/GLM-5.1", "glm"}};
  std::ifstream in(file);
  size_t found = 0;
  for (const Json& row : Json::parse(in)) {
    const auto family = families.find(row["name"].get<std::string>());
    if (family == families.end()) continue;
    ++found;
    const std::string source = row["chat_template"].get<std::string>();
    EXPECT_EQ(family_of(source).name, family->second);
    const std::string turn = written_call(source, "functions.weather:0");
    const Parsed parsed = parse(form_of(family->second), turn, 3);
    ASSERT_EQ(parsed.calls.size(), 1u) << family->first << " wrote " << turn;
    EXPECT_EQ(parsed.calls[0], "weather(" + std::string(kArguments) + ")") << turn;
    EXPECT_TRUE(model::knows_tools(source));
    EXPECT_NE(reasoning_marks_of(source), nullptr);
  }
  EXPECT_EQ(found, families.size());
}

}  // namespace
}  // namespace butterfly::server
