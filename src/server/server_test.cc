// The whole server over real sockets, with a small random model.
#include "server/server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <list>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/json_text.h"
#include "base/testing/source_tree.h"
#include "server/api/json.h"
#include "server/management_client.h"
#include "server/testing/running_server.h"

namespace butterfly::server {
namespace {

using namespace std::chrono_literals;
using testing::ask;
using testing::Client;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Reply;
using testing::RunningServer;

constexpr const char* kHello = R"({"messages":[{"role":"user","content":"Hello"}],"max_tokens":12,"seed":7)";

Json json_of(const Reply& reply) { return json_of_text<Json>(reply.body); }

// The objects of a stream of server-sent events, without [DONE].
std::vector<Json> events_of(const std::string& body) {
  std::vector<Json> events;
  for (size_t at = 0; (at = body.find("data: ", at)) != std::string::npos;) {
    const size_t end = body.find("\n\n", at);
    const std::string text = body.substr(at + 6, end - at - 6);
    if (text != "[DONE]") events.push_back(json_of_text<Json>(text));
    at = end;
  }
  return events;
}

class ServerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { running = new RunningServer; }
  static void TearDownTestSuite() {
    delete running;
    running = nullptr;
  }
  static RunningServer* running;
};
RunningServer* ServerTest::running = nullptr;

TEST_F(ServerTest, ModelsAndHealth) {
  EXPECT_EQ(running->get("/health").status, 200);
  const Json models = json_of(running->get("/v1/models"));
  EXPECT_EQ(models["data"][0]["id"], "tiny");
  for (const char* key : {"id", "object", "created", "owned_by"})
    EXPECT_TRUE(models["data"][0].contains(key)) << key;
  EXPECT_EQ(json_of(running->get("/v1/models/tiny"))["id"], "tiny");
  const Reply none = running->get("/v1/models/other");
  EXPECT_EQ(none.status, 404);
  EXPECT_EQ(json_of(none)["error"]["code"], "model_not_found");
}

TEST_F(ServerTest, ChatHasEveryKeyAndTheSameSeedGivesTheSameText) {
  const Reply reply = running->post("/v1/chat/completions", std::string(kHello) + "}");
  ASSERT_EQ(reply.status, 200) << reply.body;
  const Json json = json_of(reply);
  for (const char* key : {"id", "object", "created", "model", "choices", "usage", "system_fingerprint"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_EQ(json["object"], "chat.completion");
  const Json& choice = json["choices"][0];
  for (const char* key : {"index", "message", "logprobs", "finish_reason"})
    EXPECT_TRUE(choice.contains(key)) << key;
  for (const char* key : {"role", "content", "refusal"}) EXPECT_TRUE(choice["message"].contains(key)) << key;
  EXPECT_TRUE(choice["logprobs"].is_null());
  EXPECT_EQ(json["usage"]["total_tokens"].get<int>(),
            json["usage"]["prompt_tokens"].get<int>() + json["usage"]["completion_tokens"].get<int>());
  const Json again = json_of(running->post("/v1/chat/completions", std::string(kHello) + "}"));
  EXPECT_EQ(again["choices"][0]["message"]["content"], choice["message"]["content"]);
  EXPECT_NE(again["id"], json["id"]);
}

TEST_F(ServerTest, AStreamIsTheSameTextInPieces) {
  const Json whole = json_of(running->post("/v1/chat/completions", std::string(kHello) + "}"));
  const Reply reply =
      running->post("/v1/chat/completions",
                    std::string(kHello) + R"(,"stream":true,"stream_options":{"include_usage":true}})",
                    "Accept: application/json\r\n");
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_THAT(reply.fields.at("content-type"), HasSubstr("text/event-stream"));
  EXPECT_TRUE(reply.body.ends_with("data: [DONE]\n\n"));
  const auto events = events_of(reply.body);
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events.front()["choices"][0]["delta"]["role"], "assistant");
  std::string text;
  for (const Json& event : events) {
    EXPECT_EQ(event["object"], "chat.completion.chunk");
    if (event["choices"].empty()) continue;
    EXPECT_TRUE(event["usage"].is_null());
    EXPECT_TRUE(event["choices"][0].contains("logprobs"));
    text += event["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(text, whole["choices"][0]["message"]["content"].get<std::string>());
  EXPECT_EQ(events[events.size() - 2]["choices"][0]["finish_reason"], whole["choices"][0]["finish_reason"]);
  EXPECT_TRUE(events.back()["choices"].empty());
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], whole["usage"]["completion_tokens"]);
}

TEST(ServerProgress, LongPromptsTellHowFarTheyAreRead) {
  RunningServer running([](Settings& settings) { settings.batch = 16; });
  const std::string prompt(100, 'x');
  const std::string body = R"({"max_tokens":2,"stream":true,"prompt":")" + prompt + "\"";
  size_t last = 0, pieces = 0;
  for (const Json& event :
       events_of(running.post("/v1/completions", body + R"(,"return_progress":true})").body)) {
    if (!event.contains("prompt_progress")) continue;
    EXPECT_TRUE(event["choices"].empty());
    const Json& progress = event["prompt_progress"];
    EXPECT_GT(progress["processed"].get<size_t>(), last);
    EXPECT_LE(progress["processed"].get<size_t>(), progress["total"].get<size_t>());
    last = progress["processed"].get<size_t>();
    ++pieces;
  }
  EXPECT_GE(pieces, 3u);
  EXPECT_THAT(running.post("/v1/completions", body + "}").body, ::testing::Not(HasSubstr("prompt_progress")));
}

TEST_F(ServerTest, SeveralAnswersAndLogprobs) {
  const Json json = json_of(running->post(
      "/v1/chat/completions", std::string(kHello) + R"(,"n":3,"logprobs":true,"top_logprobs":2})"));
  ASSERT_EQ(json["choices"].size(), 3u);
  for (const Json& choice : json["choices"]) {
    const Json& content = choice["logprobs"]["content"];
    ASSERT_FALSE(content.empty());
    for (const Json& token : content) {
      EXPECT_LE(token["logprob"].get<double>(), 0.0);
      EXPECT_TRUE(token["bytes"].is_array());
      EXPECT_EQ(token["top_logprobs"].size(), 2u);
      EXPECT_GE(token["top_logprobs"][0]["logprob"].get<double>(),
                token["top_logprobs"][1]["logprob"].get<double>());
    }
  }
  const Json alone = json_of(running->post("/v1/chat/completions", std::string(kHello) + "}"));
  EXPECT_EQ(json["choices"][0]["message"]["content"], alone["choices"][0]["message"]["content"]);
}

TEST_F(ServerTest, LogitBiasStopsAndMaxTokens) {
  // One byte token over and over: 100 is as good as forcing.
  const int32_t a = 3 + 'a';
  const std::string bias = R"(,"logit_bias":{")" + std::to_string(a) + R"(":100}})";
  const Json json = json_of(running->post("/v1/chat/completions", std::string(kHello) + bias));
  EXPECT_EQ(json["choices"][0]["message"]["content"], std::string(12, 'a'));
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
  const Json stopped =
      json_of(running->post("/v1/chat/completions", std::string(kHello) + R"(,"stop":"aaa")" + bias));
  EXPECT_EQ(stopped["choices"][0]["message"]["content"], "");
  EXPECT_EQ(stopped["choices"][0]["finish_reason"], "stop");
}

TEST_F(ServerTest, ErrorsHaveOpenAisShape) {
  struct Case {
    const char* body;
    int status;
    const char* param;
    const char* words;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"{", 400, nullptr, "not JSON"},
           {R"({"messages":[{"role":"user","content":"x"}],"n":1000000})", 400, "n", "expected 1 to 32"},
           {R"({"messages":[{"role":"user","content":"x"}],"max_tokens":-5})", 400, "max_tokens", "found -5"},
           {R"({"messages":[{"role":"user","content":"x"}],"max_tokens":0})", 400, "max_tokens", "found 0"},
           {R"({"messages":[{"role":"user","content":"x"}],"temperature":-1})", 400, "temperature",
            "expected 0 to 2"},
           {R"({"messages":[{"role":"user","content":"x"}],"temperature":9})", 400, "temperature",
            "expected 0 to 2"},
           {R"({"messages":[{"role":"user","content":"x"}],"logit_bias":{"99999":1}})", 400, "logit_bias",
            "no token id"},
           {R"({"messages":[{"role":"user","content":"x"}],"top_logprobs":2})", 400, "top_logprobs",
            "needs logprobs"},
           {R"({"messages":[{"role":"user","content":"x"}],"model":"gpt-9"})", 404, "model", "gpt-9"},
           {R"({"messages":[{"role":"user","content":"x"}],"response_format":{"type":"xml"}})", 400,
            "response_format.type", "xml"},
           {R"({"messages":[{"role":"user","content":"x"}],"tool_choice":"required"})", 400, "tool_choice",
            "no tools"},
           {R"({"messages":[{"role":"user","content":"x"}],"grammar":"root ::= ("})", 400, "grammar", ""},
       }) {
    const Reply reply = running->post("/v1/chat/completions", c.body);
    EXPECT_EQ(reply.status, c.status) << c.body << reply.body;
    const Json error = json_of(reply)["error"];
    for (const char* key : {"message", "type", "param", "code"}) EXPECT_TRUE(error.contains(key)) << key;
    if (c.param != nullptr) {
      EXPECT_EQ(error["param"], c.param) << c.body;
    }
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(c.words));
  }
  EXPECT_EQ(running->get("/nothing").status, 404);
  const Reply method = running->get("/v1/chat/completions");
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.fields.at("allow"), "POST");
  EXPECT_EQ(running->post("/v1/chat/completions", "x", "Content-Type: text/plain\r\n").status, 415);
}

TEST_F(ServerTest, ATooLongPromptIsRefusedWithBothNumbers) {
  const std::string text(900, 'x');
  const Reply reply =
      running->post("/v1/chat/completions", R"({"messages":[{"role":"user","content":")" + text + R"("}]})");
  EXPECT_EQ(reply.status, 400);
  const Json error = json_of(reply)["error"];
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("512"));
}

TEST_F(ServerTest, Completions) {
  const Json json = json_of(running->post(
      "/v1/completions", R"({"prompt":["Hello","World"],"n":2,"max_tokens":5,"seed":1,"logprobs":2})"));
  ASSERT_EQ(json["choices"].size(), 4u) << json_text(json);
  EXPECT_EQ(json["object"], "text_completion");
  for (const Json& choice : json["choices"])
    for (const char* key : {"text", "index", "logprobs", "finish_reason"})
      EXPECT_TRUE(choice.contains(key)) << key;
  EXPECT_EQ(json["choices"][0]["logprobs"]["tokens"].size(), 5u);
  const Json echo = json_of(running->post(
      "/v1/completions", R"({"prompt":"Hello","max_tokens":2,"echo":true,"logprobs":0,"seed":1})"));
  EXPECT_THAT(echo["choices"][0]["text"].get<std::string>(), ::testing::StartsWith("Hello"));
  EXPECT_TRUE(echo["choices"][0]["logprobs"]["token_logprobs"][0].is_null());
  EXPECT_TRUE(echo["choices"][0]["logprobs"]["token_logprobs"][1].is_number());
  const Json ids =
      json_of(running->post("/v1/completions", R"({"prompt":[1,100,101],"max_tokens":2,"seed":1})"));
  EXPECT_EQ(ids["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(running->post("/v1/completions", R"({"prompt":[1,4000]})").status, 400);
  EXPECT_EQ(running->post("/v1/completions", R"({"prompt":[]})").status, 400);
}

TEST_F(ServerTest, EmbeddingsAsFloatsAndBase64) {
  const Json plain =
      json_of(running->post("/v1/embeddings", R"({"input":["Hello","World"],"model":"tiny"})"));
  ASSERT_EQ(plain["data"].size(), 2u) << json_text(plain);
  const auto values = plain["data"][0]["embedding"].get<std::vector<float>>();
  ASSERT_EQ(values.size(), 64u);
  double squares = 0;
  for (const float value : values) squares += double{value} * value;
  EXPECT_NEAR(squares, 1, 1e-3);
  const Json coded =
      json_of(running->post("/v1/embeddings", R"({"input":"Hello","encoding_format":"base64"})"));
  const std::string text = coded["data"][0]["embedding"];
  std::string bytes;
  uint32_t group = 0;
  int bits = 0;
  for (const char c : text) {
    const size_t digit =
        std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/").find(c);
    if (digit == std::string_view::npos) break;
    group = group << 6 | static_cast<uint32_t>(digit);
    if ((bits += 6) >= 8) bytes += static_cast<char>(group >> (bits -= 8) & 255);
  }
  ASSERT_EQ(bytes.size(), 64 * sizeof(float));
  std::vector<float> decoded(64);
  std::memcpy(decoded.data(), bytes.data(), bytes.size());
  EXPECT_EQ(decoded, values);
  EXPECT_EQ(
      json_of(running->post("/v1/embeddings", R"({"input":"Hello","dimensions":8})"))["data"][0]["embedding"]
          .size(),
      8u);
  EXPECT_EQ(running->post("/v1/embeddings", R"({"input":"Hello","dimensions":800})").status, 400);
  // More than the queue holds: they go one after the other.
  Json many = {{"input", Json::array()}};
  for (int i = 0; i < 300; ++i) many["input"].push_back("text " + std::to_string(i));
  const Reply reply = running->post("/v1/embeddings", to_text(many));
  ASSERT_EQ(reply.status, 200) << reply.body.substr(0, 300);
  EXPECT_EQ(json_of(reply)["data"].size(), 300u);
  EXPECT_EQ(running->post("/v1/embeddings", R"({"input":"Hello","encoding_format":"hex"})").status, 400);
}

TEST_F(ServerTest, JsonBySchemaAndForcedTools) {
  const Json json = json_of(running->post(
      "/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}],"seed":3,"max_tokens":200,
      "response_format":{"type":"json_schema","json_schema":{"name":"a","strict":true,"schema":{"type":"object","properties":{"ok":{"type":"boolean"},"kind":{"enum":["a","b"]}},
      "required":["ok","kind"],"additionalProperties":false}}}})"));
  ASSERT_TRUE(json.contains("choices")) << json_text(json);
  const Json made = json_of_text<Json>(json["choices"][0]["message"]["content"].get<std::string>());
  EXPECT_TRUE(made["ok"].is_boolean());
  EXPECT_TRUE(made["kind"] == "a" || made["kind"] == "b");

  const std::string tools =
      R"("tools":[{"type":"function","function":{"name":"light","parameters":{"type":"object","properties":{"on":{"type":"boolean"}},"required":["on"],"additionalProperties":false}}}],"tool_choice":"required")";
  // Weights that know nothing like blanks: what there may be of them fits.
  const std::string base =
      R"({"messages":[{"role":"user","content":"x"}],"seed":3,"max_tokens":300,)" + tools;
  const Json called = json_of(running->post("/v1/chat/completions", base + "}"));
  ASSERT_TRUE(called.contains("choices")) << json_text(called);
  ASSERT_EQ(called["choices"][0]["finish_reason"], "tool_calls") << json_text(called);
  const Json& call = called["choices"][0]["message"]["tool_calls"][0];
  EXPECT_EQ(call["function"]["name"], "light");
  EXPECT_TRUE(json_of_text<Json>(call["function"]["arguments"].get<std::string>())["on"].is_boolean());
  EXPECT_TRUE(called["choices"][0]["message"]["content"].is_null());

  std::string name, arguments;
  for (const Json& event :
       events_of(running->post("/v1/chat/completions", base + R"(,"stream":true})").body)) {
    const Json& delta = event["choices"][0]["delta"];
    if (!delta.contains("tool_calls")) continue;
    name += delta["tool_calls"][0]["function"].value("name", "");
    arguments += delta["tool_calls"][0]["function"].value("arguments", "");
  }
  EXPECT_EQ(name, "light");
  EXPECT_EQ(arguments, call["function"]["arguments"].get<std::string>());
}

// Ten "</s>" cost what ten "</q>" cost, wherever they stand: they are no end of the text.
TEST_F(ServerTest, RulesUnderTheNamesThatClientsHave) {
  const auto text_of = [&](const std::string& more) {
    const Reply reply = running->post(
        "/v1/chat/completions",
        R"({"messages":[{"role":"user","content":"Hi"}],"seed":3,"max_tokens":200,)" + more + "}");
    EXPECT_EQ(reply.status, 200) << more << reply.body;
    const Json choice = json_of(reply)["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "stop") << more;
    return choice["message"]["content"].get<std::string>();
  };
  const std::string schema = R"({"type":"object","properties":{"on":{"type":"boolean"}},"required":["on"],
                                 "additionalProperties":false})";
  const auto is_light = ::testing::AnyOf(R"({"on":true})", R"({"on":false})");  // compact
  EXPECT_THAT(
      text_of(R"("response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":)" +
              schema + "}}"),
      is_light);
  EXPECT_THAT(text_of("\"json_schema\":" + schema), is_light);
  EXPECT_THAT(text_of("\"guided_json\":" + schema), is_light);
  EXPECT_THAT(text_of("\"guided_json\":" + json_text(Json(schema))), is_light);
  EXPECT_THAT(text_of("\"structured_outputs\":{\"json\":" + schema + "}"), is_light);
  const auto is_choice = ::testing::AnyOf("yes (a)", "no.*");
  EXPECT_THAT(text_of(R"j("guided_choice":["yes (a)","no.*"])j"), is_choice);
  EXPECT_THAT(text_of(R"j("structured_outputs":{"choice":["yes (a)","no.*"]})j"), is_choice);
  for (const char* name : {"regex", "guided_regex"})
    EXPECT_THAT(text_of(fmt::format(R"("{}":"[ab]{{3}}-[0-9]")", name)),
                ::testing::MatchesRegex("[ab][ab][ab]-[0-9]"));
  for (const char* name : {"grammar", "guided_grammar"})
    EXPECT_EQ(text_of(fmt::format(R"("{}":"root ::= \"hello\"")", name)), "hello");
}

TEST_F(ServerTest, NothingIsIgnoredThatAClientReliesOn) {
  const auto refusal = [&](const std::string& more) {
    const Reply reply =
        running->post("/v1/chat/completions",
                      R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":4,)" + more + "}");
    EXPECT_EQ(reply.status, 400) << more << reply.body;
    return json_of(reply)["error"]["message"].get<std::string>();
  };
  EXPECT_THAT(refusal(R"("functions":[{"name":"f"}])"), HasSubstr("send tools"));
  EXPECT_THAT(refusal(R"("function_call":"auto")"), HasSubstr("tool_choice"));
  EXPECT_THAT(refusal(R"("regex":"a","guided_json":{})"),
              HasSubstr("guided_json: cannot stand beside regex"));
  EXPECT_THAT(refusal(R"("regex":"(")"), HasSubstr("regex: "));
  EXPECT_THAT(refusal(R"("regex":"[^\\s\\S]")"), HasSubstr("no text matches"));
  EXPECT_THAT(refusal(R"("structured_outputs":{"json":{},"regex":"a"})"), HasSubstr("cannot stand beside"));
  EXPECT_THAT(refusal(R"("structured_outputs":{"structural_tag":"x"})"), HasSubstr("expected one of json"));
  EXPECT_THAT(refusal(R"("json_whitespace":"some")"), HasSubstr("expected none or free"));
  EXPECT_THAT(refusal(R"("tools":[{"type":"function","function":{"name":"f","strict":1}}])"),
              HasSubstr("tools[0].function.strict"));
  // Words of libraries and places said twice help nobody.
  const std::string twice = refusal(R"("tools":[{"function":{"name":"f"}},{"function":{"name":"f"}}])");
  EXPECT_THAT(twice, HasSubstr("tools: 'f' is there twice"));
  EXPECT_THAT(twice, Not(HasSubstr("tools: tools")));
  EXPECT_THAT(refusal(R"("grammar":"root ::= (")"), Not(HasSubstr("grammar: grammar")));
  EXPECT_THAT(
      json_of(running->post("/v1/chat/completions", "{\"a\":}"))["error"]["message"].get<std::string>(),
      Not(HasSubstr("json.exception")));
}

TEST_F(ServerTest, AForcedCallThatIsCutIsNotContent) {
  const Reply reply =
      running->post("/v1/chat/completions",
                    R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":9,"tool_choice":"required",
          "tools":[{"type":"function","function":{"name":"light","parameters":{"type":"object",
          "properties":{"text":{"type":"string","minLength":500}},"required":["text"]}}}]})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  const Json choice = json_of(reply)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["message"]["content"], "");
  EXPECT_FALSE(choice["message"].contains("tool_calls"));
}

TEST_F(ServerTest, NothingInARequestForgesControlTokens) {
  const auto tokens = [&](std::string body, const std::string& letter) {
    std::string marks;
    for (int i = 0; i < 10; ++i) marks += "</" + letter + ">";
    for (size_t at; (at = body.find('@')) != std::string::npos;) body.replace(at, 1, marks);
    const Reply reply = running->post("/v1/chat/completions", body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return json_of(reply)["usage"]["prompt_tokens"].get<int>();
  };
  for (
      const char* body :
      {R"({"max_tokens":1,"messages":[{"role":"user","content":"@"}]})",
       R"({"max_tokens":1,"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f","description":"@"}}]})",
       R"({"max_tokens":1,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":\"@\"}"}}]}]})"}) {
    EXPECT_EQ(tokens(body, "s"), tokens(body, "q")) << body;
    EXPECT_GT(tokens(body, "s"), 40) << body;
  }
}

TEST_F(ServerTest, TemplateVariablesCannotReplaceTheMessages) {
  const Reply reply = running->post("/v1/chat/completions",
                                    std::string(kHello) + R"(,"chat_template_kwargs":{"messages":[]}})");
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(json_of(reply)["error"]["param"], "chat_template_kwargs");
  EXPECT_THAT(reply.body, HasSubstr("'messages' cannot be replaced"));
}

TEST_F(ServerTest, Responses) {
  const Json json = json_of(running->post(
      "/v1/responses", R"({"input":"Hello","instructions":"Be brief","max_output_tokens":8,"seed":1})"));
  EXPECT_EQ(json["object"], "response") << json_text(json);
  EXPECT_EQ(json["status"], "incomplete");
  EXPECT_EQ(json["output"][0]["content"][0]["type"], "output_text");
  const std::string text = json["output"][0]["content"][0]["text"];
  std::string streamed;
  std::vector<std::string> types;
  for (
      const Json& event : events_of(
          running
              ->post(
                  "/v1/responses",
                  R"({"input":[{"role":"user","content":[{"type":"input_text","text":"Hello"}]}],"instructions":"Be brief","max_output_tokens":8,"seed":1,"stream":true})")
              .body)) {
    EXPECT_EQ(event["sequence_number"], types.size());
    types.push_back(event["type"]);
    if (types.back() == "response.output_text.delta") streamed += event["delta"].get<std::string>();
  }
  EXPECT_EQ(streamed, text);
  EXPECT_EQ(types.front(), "response.created");
  EXPECT_EQ(types.back(), "response.incomplete");
}

TEST_F(ServerTest, Ollama) {
  EXPECT_THAT(running->get("/").body, HasSubstr("is running"));
  // As clients compare it: numbers, not below those that they ask for.
  const Json version = json_of(running->get("/api/version"));
  int major = 0, minor = 0, patch = 0;
  ASSERT_EQ(std::sscanf(version["version"].get<std::string>().c_str(), "%d.%d.%d", &major, &minor, &patch),
            3);
  EXPECT_GE(std::make_pair(major, minor), std::make_pair(0, 14)) << version;
  EXPECT_EQ(version["butterfly"], "0.0.0");
  EXPECT_EQ(json_of(running->get("/api/tags"))["models"][0]["name"], "tiny");
  EXPECT_EQ(json_of(running->get("/api/ps"))["models"][0]["context_length"], 512);
  // A picture would be lost, a word of thinking not.
  const Reply picture = running->post(
      "/api/chat", R"({"messages":[{"role":"user","content":"Hi","images":["AA"]}],"stream":false})");
  EXPECT_EQ(picture.status, 400);
  EXPECT_THAT(picture.body, HasSubstr("messages[0].images"));
  const std::string thinks =
      R"({"messages":[{"role":"user","content":"Hi","images":[]}],"stream":false,"options":{"num_predict":1},"think":)";
  EXPECT_EQ(running->post("/api/chat", thinks + "\"low\"}").status, 200);
  EXPECT_EQ(running->post("/api/chat", thinks + "7}").status, 400);
  const Json show = json_of(running->post("/api/show", R"({"model":"tiny:latest"})"));
  EXPECT_EQ(show["model_info"]["general.architecture"], "llama");
  const Reply stream = running->post(
      "/api/chat",
      R"({"model":"tiny","messages":[{"role":"user","content":"Hi"}],"options":{"num_predict":6,"seed":2}})");
  EXPECT_EQ(stream.fields.at("content-type"), "application/x-ndjson");
  std::string text;
  std::istringstream lines(stream.body);
  Json last;
  for (std::string line; std::getline(lines, line);) {
    last = json_of_text<Json>(line);
    text += last["message"]["content"].get<std::string>();
  }
  EXPECT_TRUE(last["done"].get<bool>());
  EXPECT_EQ(last["eval_count"], 6);
  const Json whole = json_of(running->post(
      "/api/chat",
      R"({"model":"tiny","stream":false,"messages":[{"role":"user","content":"Hi"}],"options":{"num_predict":6,"seed":2}})"));
  EXPECT_EQ(whole["message"]["content"], text);
  const Json generated = json_of(running->post(
      "/api/generate",
      R"({"model":"tiny","stream":false,"prompt":"Hi","raw":true,"options":{"num_predict":4}})"));
  EXPECT_TRUE(generated["response"].is_string());
  EXPECT_EQ(
      json_of(running->post("/api/embed", R"({"model":"tiny","input":["a","b"]})"))["embeddings"].size(), 2u);
  const Reply unsupported =
      running->post("/api/generate", R"({"model":"tiny","prompt":"Hi","template":"{{ .Prompt }}"})");
  EXPECT_EQ(unsupported.status, 400);
  EXPECT_THAT(unsupported.body, HasSubstr("template: not supported"));
  const Reply error = running->post("/api/chat", R"({"model":"none","messages":[]})");
  EXPECT_EQ(error.status, 404);
  EXPECT_TRUE(json_of(error)["error"].is_string());
}

TEST_F(ServerTest, TokensThereAndBack) {
  const Json tokens = json_of(running->post("/tokenize", R"({"content":"Hello, World"})"));
  Json back = Json::object();
  back["tokens"] = tokens["tokens"];
  EXPECT_EQ(json_of(running->post("/detokenize", to_text(back)))["content"], "Hello, World");
}

TEST_F(ServerTest, MetricsCountWhatHappened) {
  running->post("/v1/completions", R"({"prompt":"a","max_tokens":3})");
  const std::string text = running->get("/metrics").body;
  for (const char* name : {"vllm:num_requests_running{model_name=\"tiny\"} 0",
                           "# TYPE vllm:time_to_first_token_seconds histogram",
                           "vllm:time_to_first_token_seconds_bucket{model_name=\"tiny\",le=\"+Inf\"}",
                           "butterfly_ready 1", "vllm:generation_tokens_total"})
    EXPECT_THAT(text, HasSubstr(name));
}

TEST_F(ServerTest, SitesAndPagesOfOthersAreRefusedForEveryMethod) {
  for (const char* method : {"GET", "POST", "DELETE", "OPTIONS", "HEAD"}) {
    EXPECT_EQ(ask(running->port(), method, "/health", {}, "Host: evil.example\r\n").status, 421) << method;
    if (std::string_view(method) != "HEAD") {
      EXPECT_EQ(ask(running->port(), method, "/health", {}, "Origin: https://evil.example\r\n").status, 403)
          << method;
    }
  }
  const Reply preflight =
      ask(running->port(), "OPTIONS", "/v1/chat/completions", {}, "Origin: http://localhost:3000\r\n");
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.fields.at("access-control-allow-origin"), "http://localhost:3000");
  EXPECT_FALSE(running->get("/health").fields.contains("access-control-allow-origin"));
  // The fields that SDKs add are the page's to send.
  const Reply sdk = ask(running->port(), "OPTIONS", "/v1/chat/completions", {},
                        "Origin: http://localhost:3000\r\nAccess-Control-Request-Headers: "
                        "authorization,content-type,x-stainless-os,x-api-key,anthropic-version\r\n");
  EXPECT_EQ(sdk.fields.at("access-control-allow-headers"),
            "authorization,content-type,x-stainless-os,x-api-key,anthropic-version");
}

// Public routes are for everybody: what they take in nobody has to pay for with a key.
TEST_F(ServerTest, GetTakesNoBody) {
  for (const char* head : {"Content-Length: 8388608\r\n", "Transfer-Encoding: chunked\r\n"}) {
    Client client(running->port());
    client.send("GET /health HTTP/1.1\r\nHost: localhost\r\n" + std::string(head) + "\r\n");
    const Reply reply = client.read();
    EXPECT_EQ(reply.status, 400) << head;
    EXPECT_THAT(reply.body, HasSubstr("takes no body"));
  }
  EXPECT_EQ(ask(running->port(), "GET", "/health", {}, "Content-Length: 0\r\n").status, 200);
}

TEST_F(ServerTest, ManagementIsOnTheUnixSocketOnly) {
  EXPECT_EQ(running->get("/manage/ps").status, 404);
  const auto answer = ask_server(running->server().management_path(), "GET", "/manage/ps");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(json_of_text<Json>(answer.body)["models"][0]["state"], "ready");
  EXPECT_EQ(
      ask_server(running->server().management_path(), "POST", "/manage/unload", R"({"model":"none"})").status,
      404);
}

// Waits until the engine has nothing to do.
bool becomes_idle(RunningServer& running) {
  for (int i = 0; i < 2000; ++i) {
    const Json state =
        json_of_text<Json>(ask_server(running.server().management_path(), "GET", "/manage/ps").body);
    if (state["models"][0]["running"] == 0 && state["models"][0]["waiting"] == 0 &&
        state["models"][0]["pages_used"] == 0)
      return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

TEST_F(ServerTest, AClientThatGoesFreesItsPlace) {
  for (int i = 0; i < 20; ++i) {
    Client client(running->port());
    client.send(testing::request_text("POST", "/v1/completions",
                                      R"({"prompt":"a","stream":true,"ignore_eos":true,"n":4})"));
    if (i % 2 == 0) client.read_until("data: ");
  }
  EXPECT_TRUE(becomes_idle(*running));
}

TEST(ServerQueue, IsBoundedAndSaysSo) {
  RunningServer running([](Settings& s) {
    s.parallel = 1;
    s.queue = 1;
  });
  const std::string endless =
      testing::request_text("POST", "/v1/completions", R"({"prompt":"a","stream":true,"ignore_eos":true})");
  // One runs, one waits; of a dozen that come together some are refused, however the threads are scheduled.
  std::string refused;
  for (int round = 0; round < 20 && refused.empty(); ++round) {
    std::list<Client> clients;
    for (int i = 0; i < 12; ++i) clients.emplace_back(running.port()).send(endless);
    for (Client& client : clients) {
      const std::string head = client.read_until("\r\n\r\n");
      if (head.find(" 429 ") != std::string::npos) refused = head + client.read_until("}}");
    }
  }
  EXPECT_THAT(refused, HasSubstr("Retry-After: 1\r\n"));
  EXPECT_THAT(refused, HasSubstr("\"code\":\"rate_limit_exceeded\""));
}

TEST(ServerDrain, LetsStreamsEnd) {
  RunningServer running;
  Client client(running.port());
  client.send(testing::request_text("POST", "/v1/completions",
                                    R"({"prompt":"a","stream":true,"max_tokens":100,"ignore_eos":true})"));
  client.read_until("data: ");
  EXPECT_TRUE(running.drain());
  EXPECT_THAT(client.read_until("[DONE]"), HasSubstr("\"finish_reason\":\"length\""));
}

TEST(ServerKeys, AreAskedForEverywhereButHealth) {
  RunningServer running([](Settings& s) { s.api_keys = {"bf-test-key-0123456789"}; });
  EXPECT_EQ(running.get("/v1/models").status, 401);
  EXPECT_EQ(running.get("/api/tags").status, 401);
  EXPECT_EQ(running.get("/metrics").status, 401);
  EXPECT_EQ(running.get("/nothing").status, 401);
  EXPECT_EQ(running.get("/health").status, 200);
  EXPECT_EQ(running.get("/v1/models", "Authorization: Bearer bf-test-key-0123456789\r\n").status, 200);
  EXPECT_EQ(running.get("/v1/models", "Authorization: Bearer bf-test-key-0123456788\r\n").status, 401);
}

TEST(ServerKeys, WhatOneKeySentIsNotSeenByAnother) {
  const auto cached = [](bool share) {
    RunningServer running([&](Settings& s) {
      s.api_keys = {"bf-test-key-0123456789", "bf-test-key-abcdefghij"};
      s.share_prefixes = share;
    });
    const std::string body = fmt::format(R"({{"prompt":"{}","max_tokens":1}})", std::string(200, 'x'));
    const auto ask_as = [&](const char* key) {
      const Json usage = json_of(
          running.post("/v1/completions", body, fmt::format("Authorization: Bearer {}\r\n", key)))["usage"];
      return usage["prompt_tokens_details"]["cached_tokens"].get<size_t>();
    };
    EXPECT_EQ(ask_as("bf-test-key-0123456789"), 0u);
    EXPECT_GT(ask_as("bf-test-key-0123456789"), 0u);
    return ask_as("bf-test-key-abcdefghij");
  };
  EXPECT_EQ(cached(false), 0u);
  EXPECT_GT(cached(true), 0u);
}

TEST(ServerStart, RefusesAnOpenAddressWithoutAKeyAndSaysHowToMakeOne) {
  Settings settings;
  settings.host = "0.0.0.0";
  settings.port = 0;
  settings.models = {"x.gguf"};
  try {
    const Server server({settings, "0", [](const std::string& text) { return std::filesystem::path(text); }});
    FAIL() << "it started";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("butterfly serve --make-key"));
  }
}

TEST(ServerModels, SeveralByNameAndIdleOnesMakeRoom) {
  RunningServer running([](Settings& s) {
    const std::filesystem::path folder = std::filesystem::path(s.management).parent_path();
    testing::write_test_model(folder / "b.gguf", 512, 2);
    s.models = {"a=" + (folder / "tiny.gguf").string(), "b=" + (folder / "b.gguf").string()};
    s.lazy = true;
    s.memory = "1200KiB";  // one of them with its cache, not both
  });
  const auto text_of = [&](const char* model) {
    const Reply reply = running.post(
        "/v1/completions", fmt::format(R"({{"model":"{}","prompt":"a","max_tokens":8,"seed":1}})", model));
    EXPECT_EQ(reply.status, 200) << reply.body;
    return json_of(reply)["choices"][0]["text"].get<std::string>();
  };
  const auto state_of = [&](size_t index) {
    return json_of_text<Json>(ask_server(running.server().management_path(), "GET", "/manage/ps")
                                  .body)["models"][index]["state"]
        .get<std::string>();
  };
  const std::string a = text_of("a");
  EXPECT_EQ(state_of(0), "ready");
  EXPECT_EQ(state_of(1), "unloaded");
  EXPECT_NE(text_of("b"), a);
  EXPECT_EQ(state_of(0), "unloaded");
  EXPECT_EQ(text_of("a"), a);
}

}  // namespace
}  // namespace butterfly::server
