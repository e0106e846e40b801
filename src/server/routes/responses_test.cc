// What agents send to /v1/responses: items of other servers' tools, empty probes, what would have to be kept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/testing/temp_dir.h"
#include "model/formats/gguf_writer.h"
#include "server/api/json.h"
#include "server/testing/running_server.h"

namespace butterfly::server {
namespace {

using ::testing::HasSubstr;
using testing::Reply;
using testing::RunningServer;

Json json_of(const Reply& reply) { return json_of_text<Json>(reply.body); }

// The test model with a template of its own.
void write_model_with_template(const std::filesystem::path& to, const std::string& source) {
  const butterfly::testing::TempDir folder;
  testing::write_test_model(folder / "plain.gguf");
  const model::GgufFile file = model::GgufFile::open(folder / "plain.gguf");
  model::Metadata metadata = file.metadata();
  metadata.set("tokenizer.chat_template", source);
  model::GgufWriter writer(std::move(metadata));
  for (const model::GgufTensor& tensor : file.tensors()) writer.add_tensor(tensor.name, file.tensor(tensor));
  writer.write(to);
}

// Every message with its calls, and the beginning of reasoning.
constexpr const char* kTemplate =
    "{% for m in messages %}[{{ m.role }}|{{ m.content }}{% for c in m.tool_calls or [] %}|{{ "
    "c.function.name }} {{ c.function.arguments | tojson }}{% endfor %}]{% endfor %}"
    "{% if add_generation_prompt %}<think>{% if closed %}</think>{% endif %}{% endif %}{# </think> #}";

class ResponsesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = new butterfly::testing::TempDir;
    write_model_with_template(*folder / "thinker.gguf", kTemplate);
    running = new RunningServer(
        [](Settings& settings) { settings.models = {"thinker=" + (*folder / "thinker.gguf").string()}; });
  }
  static void TearDownTestSuite() {
    delete running;
    delete folder;
  }
  // Tokens of the prompt that these items make.
  static int prompt_tokens(const std::string& items) {
    const Json json = json_of(running->post(
        "/v1/responses", R"({"max_output_tokens":1,"input":[{"role":"user","content":"Go"})" + items + "]}"));
    return json.contains("usage") ? json["usage"]["input_tokens"].get<int>() : -1;
  }
  static RunningServer* running;
  static butterfly::testing::TempDir* folder;
};
RunningServer* ResponsesTest::running = nullptr;
butterfly::testing::TempDir* ResponsesTest::folder = nullptr;

TEST_F(ResponsesTest, ConversationsThatBeganElsewhereGoOn) {
  const int bare = prompt_tokens("");
  ASSERT_GT(bare, 0);
  // Of tools that no model here can call: left out.
  for (const char* type : {"web_search_call", "mcp_call", "image_generation_call", "compaction"})
    EXPECT_EQ(prompt_tokens(R"(,{"type":")" + std::string(type) + R"(","id":"x","status":"completed"})"),
              bare);
  // Calls without a schema are calls of a function with one text.
  const int custom =
      prompt_tokens(R"(,{"type":"custom_tool_call","call_id":"c","name":"patch","input":"abc"},)"
                    R"({"type":"custom_tool_call_output","call_id":"c","output":"done"})");
  const int function = prompt_tokens(
      R"(,{"type":"function_call","call_id":"c","name":"patch","arguments":"{\"input\":\"abc\"}"},)"
      R"({"type":"function_call_output","call_id":"c","output":"done"})");
  EXPECT_GT(custom, bare + 10);
  EXPECT_EQ(custom, function);
  EXPECT_GT(
      prompt_tokens(R"(,{"type":"local_shell_call","call_id":"c","action":{"type":"exec","command":["ls"]}},)"
                    R"({"type":"function_call_output","call_id":"c","output":"a b"})"),
      bare + 20);
  EXPECT_EQ(prompt_tokens(R"(,{"type":"wish"})"), -1);
  EXPECT_EQ(prompt_tokens(R"(,{"type":7})"), -1);
}

TEST_F(ResponsesTest, WhatWouldHaveToBeKeptIsRefused) {
  for (const char* more :
       {R"("previous_response_id":"resp_1")", R"("conversation":"conv_1")", R"("prompt":{"id":"pmpt_1"})"}) {
    const Reply reply = running->post("/v1/responses", R"({"input":"Hi",)" + std::string(more) + "}");
    EXPECT_EQ(reply.status, 400) << more;
    EXPECT_THAT(reply.body, HasSubstr("keeps nothing")) << more;
  }
  const Reply item = running->post("/v1/responses", R"({"input":[{"type":"item_reference","id":"x"}]})");
  EXPECT_EQ(json_of(item)["error"]["code"], "item_not_found") << item.body;
  const Reply later = running->post("/v1/responses", R"({"input":"Hi","background":true})");
  EXPECT_EQ(later.status, 400);
  EXPECT_EQ(json_of(later)["error"]["param"], "background");
}

TEST_F(ResponsesTest, ProbesAreAnsweredWithNothing) {
  for (const char* nothing : {"[]", "\"\""}) {
    const std::string body = R"({"input":)" + std::string(nothing);
    const Json json = json_of(running->post("/v1/responses", body + "}"));
    EXPECT_EQ(json["status"], "completed") << json;
    EXPECT_EQ(json["output"].size(), 0u) << json;
    EXPECT_GT(json["created_at"].get<int64_t>(), 0);
    const std::string stream = running->post("/v1/responses", body + R"(,"stream":true})").body;
    EXPECT_LT(stream.find("\"in_progress\""), stream.find("response.completed")) << stream;
  }
}

// Calls of a namespace's tools come back as the client knows them, whole and streamed.
TEST_F(ResponsesTest, CallsOfNamespacesAreGivenBackWithThem) {
  const std::string body =
      R"({"input":"Hi","max_output_tokens":200,"seed":1,"tool_choice":"required","reasoning":{"effort":"none"},)"
      R"("chat_template_kwargs":{"closed":true},)"
      R"("tools":[{"type":"namespace","name":"mcp__files","tools":[{"type":"function","name":"read",)"
      R"("parameters":{"type":"object","properties":{},"additionalProperties":false}}]}])";
  const Json whole = json_of(running->post("/v1/responses", body + "}"));
  ASSERT_TRUE(whole.contains("output")) << whole;
  const Json& call = whole["output"].back();
  EXPECT_EQ(call["type"], "function_call") << whole;
  EXPECT_EQ(call["namespace"], "mcp__files") << call;
  EXPECT_EQ(call["name"], "read") << call;
  const std::string stream = running->post("/v1/responses", body + R"(,"stream":true})").body;
  EXPECT_THAT(stream, HasSubstr(R"("namespace":"mcp__files")"));
  EXPECT_THAT(stream, ::testing::Not(HasSubstr("mcp__files__read")));
}

// The words and codes by which agents know that they have to shorten the conversation; Codex, which streams,
// looks among the events.
TEST_F(ResponsesTest, TooLongConversationsAreRefusedAsAgentsKnowIt) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "a b ";
  const std::string input = R"({"max_tokens":4,"input":")" + text + "\"";
  const Reply whole = running->post("/v1/responses", input + "}");
  EXPECT_EQ(whole.status, 400);
  EXPECT_EQ(json_of(whole)["error"]["code"], "context_length_exceeded") << whole.body;
  EXPECT_THAT(whole.body, HasSubstr("prompt is too long: "));
  EXPECT_THAT(whole.body, HasSubstr("maximum context length is "));
  const Reply stream = running->post("/v1/responses", input + R"(,"stream":true})");
  EXPECT_EQ(stream.status, 200);
  EXPECT_THAT(stream.body, HasSubstr("event: response.failed\n"));
  EXPECT_THAT(stream.body, HasSubstr(R"("code":"context_length_exceeded")"));
  const Reply message = running->post(
      "/v1/messages",
      R"({"max_tokens":4,"stream":true,"messages":[{"role":"user","content":")" + text + "\"}]}");
  EXPECT_EQ(message.status, 400);
  EXPECT_EQ(json_of(message)["error"]["type"], "invalid_request_error");
  EXPECT_THAT(message.body, HasSubstr("prompt is too long: "));
}

TEST_F(ResponsesTest, ReasoningIsCounted) {
  // All eight are reasoning: it is never closed.
  const Json cut = json_of(running->post(
      "/v1/responses",
      R"({"input":"Hi","max_output_tokens":8,"ignore_eos":true,"seed":1,"reasoning":{"effort":"high"}})"));
  EXPECT_EQ(cut["output"][0]["type"], "reasoning") << cut;
  EXPECT_EQ(cut["usage"]["output_tokens"], 8);
  EXPECT_EQ(cut["usage"]["output_tokens_details"]["reasoning_tokens"], 8) << cut;
  EXPECT_EQ(cut["reasoning"]["effort"], "high");
  // Some are, then it has to close, and the words are three letters.
  const Json closed = json_of(running->post(
      "/v1/chat/completions",
      R"({"messages":[{"role":"user","content":"Hi"}],"reasoning_budget":5,"regex":"[ab]{3}","seed":1,"max_tokens":60})"));
  const Json& message = closed["choices"][0]["message"];
  EXPECT_EQ(message["content"].get<std::string>().size(), 3u) << closed;
  const int reasoning = closed["usage"]["completion_tokens_details"]["reasoning_tokens"];
  EXPECT_GT(reasoning, 0) << closed;
  EXPECT_LE(reasoning, 5) << closed;
  const Json plain = json_of(running->post("/v1/completions", R"({"prompt":"a","max_tokens":3})"));
  EXPECT_EQ(plain["usage"]["completion_tokens_details"]["reasoning_tokens"], 0);
}

}  // namespace
}  // namespace butterfly::server
