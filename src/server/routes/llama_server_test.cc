// What clients of llama.cpp's server and rerankers ask, over real sockets.
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

class LlamaServerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { running = new RunningServer; }
  static void TearDownTestSuite() {
    delete running;
    running = nullptr;
  }
  static RunningServer* running;
};
RunningServer* LlamaServerTest::running = nullptr;

TEST_F(LlamaServerTest, PropsAndSlots) {
  const Json props = json_of(running->get("/props"));
  EXPECT_EQ(props["model_alias"], "tiny");
  EXPECT_GT(props["default_generation_settings"]["n_ctx"].get<int>(), 0);
  EXPECT_GT(props["total_slots"].get<int>(), 0);
  EXPECT_TRUE(props["chat_template"].is_string());
  EXPECT_EQ(props["model_path"].get<std::string>().find('/'), std::string::npos)
      << "no paths of this machine";
  const Json slots = json_of(running->get("/slots"));
  ASSERT_EQ(slots.size(), props["total_slots"].get<size_t>());
  EXPECT_EQ(slots[0]["is_processing"], false);
  EXPECT_FALSE(slots[0].contains("prompt")) << "whose texts they are is nobody's business";
}

TEST_F(LlamaServerTest, ApplyTemplate) {
  const Json made =
      json_of(running->post("/apply-template", R"({"messages":[{"role":"user","content":"Hello there"}]})"));
  EXPECT_THAT(made["prompt"].get<std::string>(), HasSubstr("Hello there"));
  const Json bare = json_of(running->post(
      "/apply-template",
      R"({"messages":[{"role":"user","content":"Hello there"}],"add_generation_prompt":false})"));
  EXPECT_LT(bare["prompt"].get<std::string>().size(), made["prompt"].get<std::string>().size());
  EXPECT_EQ(running->post("/apply-template", R"({"messages":[]})").status, 400);
  EXPECT_EQ(running->post("/apply-template", R"({"messages":[{"role":"wizard","content":7}]})").status, 400);
}

TEST_F(LlamaServerTest, Completion) {
  const std::string body = R"({"prompt":"Once upon","n_predict":9,"seed":3,"ignore_eos":true)";
  const Json whole = json_of(running->post("/completion", body + "}"));
  EXPECT_EQ(whole["tokens_predicted"], 9);
  EXPECT_EQ(whole["stop"], true);
  EXPECT_EQ(whole["stop_type"], "limit");
  EXPECT_GT(whole["tokens_evaluated"].get<int>(), 0);
  std::string text;
  const std::string stream = running->post("/completion", body + R"(,"stream":true})").body;
  bool ended = false;
  for (size_t at = 0; (at = stream.find("data: ", at)) != std::string::npos; at += 6) {
    const Json piece = json_of_text<Json>(stream.substr(at + 6, stream.find("\n\n", at) - at - 6));
    text += piece["content"].get<std::string>();
    ended = piece["stop"].get<bool>();
  }
  EXPECT_TRUE(ended);
  EXPECT_EQ(text, whole["content"].get<std::string>());
  EXPECT_EQ(running->post("/completion", R"({"n_predict":1})").status, 400);
  EXPECT_EQ(running->post("/completion", R"({"prompt":[999999],"n_predict":1})").status, 400);
  const Json held =
      json_of(running->post("/completion", R"({"prompt":"x","regex":"[ab]{3}","n_predict":9})"));
  EXPECT_EQ(held["content"].get<std::string>().size(), 3u) << held;
}

TEST_F(LlamaServerTest, CompletionShowsTokensAndProbabilities) {
  const std::string body = R"({"prompt":"Once upon","n_predict":6,"seed":3,"ignore_eos":true)";
  const Json plain = json_of(running->post("/completion", body + "}"));
  EXPECT_FALSE(plain.contains("completion_probabilities"));
  EXPECT_EQ(plain["tokens"].size(), 0u);
  EXPECT_GT(plain["timings"]["predicted_per_second"].get<double>(), 0);
  const std::string more = body + R"(,"n_probs":2,"return_tokens":true)";
  const Json whole = json_of(running->post("/completion", more + "}"));
  ASSERT_EQ(whole["completion_probabilities"].size(), 6u) << whole;
  ASSERT_EQ(whole["tokens"].size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    const Json& entry = whole["completion_probabilities"][i];
    EXPECT_EQ(entry["id"], whole["tokens"][i]);
    ASSERT_EQ(entry["top_logprobs"].size(), 2u);
    EXPECT_GE(entry["top_logprobs"][0]["logprob"], entry["top_logprobs"][1]["logprob"]);
    EXPECT_TRUE(entry["top_logprobs"][0]["id"].is_number_integer());
  }
  Json streamed = Json::array(), probabilities = Json::array();
  const std::string stream = running->post("/completion", more + R"(,"stream":true})").body;
  for (size_t at = 0; (at = stream.find("data: ", at)) != std::string::npos; at += 6) {
    const Json piece = json_of_text<Json>(stream.substr(at + 6, stream.find("\n\n", at) - at - 6));
    for (const Json& id : piece["tokens"]) streamed.push_back(id);
    for (const Json& entry : piece["completion_probabilities"]) probabilities.push_back(entry);
  }
  EXPECT_EQ(streamed, whole["tokens"]);
  EXPECT_EQ(probabilities, whole["completion_probabilities"]);
}

TEST_F(LlamaServerTest, InfillNeedsAModelThatWasTrainedForIt) {
  const Reply reply = running->post("/infill", R"({"input_prefix":"int ","input_suffix":";","n_predict":4})");
  EXPECT_EQ(reply.status, 501);
  EXPECT_THAT(reply.body, HasSubstr("fim_pre"));
}

// A copy of the test model that says which of its tokens stand before, behind and between.
void write_filling_model(const std::filesystem::path& from, const std::filesystem::path& to) {
  const model::GgufFile file = model::GgufFile::open(from);
  model::Metadata metadata = file.metadata();
  metadata.add("tokenizer.ggml.fim_pre_token_id", uint32_t{300});
  metadata.add("tokenizer.ggml.fim_suf_token_id", uint32_t{301});
  metadata.add("tokenizer.ggml.fim_mid_token_id", uint32_t{302});
  model::GgufWriter writer(std::move(metadata));
  for (const model::GgufTensor& tensor : file.tensors()) writer.add_tensor(tensor.name, file.tensor(tensor));
  writer.write(to);
}

TEST(LlamaServerInfill, TheOrderIsPrefixSuffixMiddle) {
  const butterfly::testing::TempDir folder;
  testing::write_test_model(folder / "plain.gguf");
  write_filling_model(folder / "plain.gguf", folder / "filling.gguf");
  const RunningServer server(
      [&](Settings& settings) { settings.models = {"filling=" + (folder / "filling.gguf").string()}; });
  const auto ids = [&](const std::string& text) {
    return json_of(server.post("/tokenize", to_text({{"content", text}})))["tokens"];
  };
  const std::string more = R"("n_predict":8,"seed":7,"temperature":1,"ignore_eos":true)";
  const Json filled = json_of(server.post(
      "/infill",
      R"({"input_extra":[{"text":"// notes"}],"input_prefix":"int x","input_suffix":"; }","prompt":" = ",)" +
          more + "}"));
  ASSERT_TRUE(filled.contains("content")) << filled;
  // The same tokens in that order, given as such. No text of the request becomes one of the three.
  Json prompt = Json::array();
  const Json with_bos = json_of(server.post("/tokenize", R"({"content":"","add_special":true})"))["tokens"];
  for (const Json& id : with_bos) prompt.push_back(id);
  const auto add = [&](const std::string& text) {
    for (const Json& id : ids(text)) prompt.push_back(id);
  };
  add("// notes\n");
  prompt.push_back(300);
  add("int x");
  prompt.push_back(301);
  add("; }");
  prompt.push_back(302);
  add(" = ");
  const Json plain =
      json_of(server.post("/completion", R"({"prompt":)" + to_text(prompt) + "," + more + "}"));
  EXPECT_EQ(filled["content"], plain["content"]);
  EXPECT_EQ(filled["tokens_evaluated"], plain["tokens_evaluated"]);
  EXPECT_EQ(filled["tokens_evaluated"].get<size_t>(), prompt.size());
}

TEST_F(LlamaServerTest, Rerank) {
  const Json json = json_of(running->post(
      "/v1/rerank",
      R"({"query":"green tea","documents":["a red car","green tea",{"text":"blue"}],"return_documents":true})"));
  ASSERT_EQ(json["results"].size(), 3u) << json;
  EXPECT_EQ(json["results"][0]["index"], 1) << "the query itself is nearest to it: " << json;
  EXPECT_NEAR(json["results"][0]["relevance_score"].get<double>(), 1, 1e-4);
  EXPECT_EQ(json["results"][0]["document"]["text"], "green tea");
  EXPECT_GE(json["results"][1]["relevance_score"].get<double>(),
            json["results"][2]["relevance_score"].get<double>());
  EXPECT_EQ(json["method"], "embedding");
  EXPECT_GT(json["usage"]["prompt_tokens"].get<int>(), 5);
  EXPECT_EQ(json_of(running->post("/v1/reranking",
                                  R"({"query":"a","documents":["b","a"]})"))["results"][0]["index"],
            1);
  const Json top = json_of(running->post("/rerank", R"({"query":"a","documents":["b","c","d"],"top_n":2})"));
  EXPECT_EQ(top["results"].size(), 2u);
  const Json tei = json_of(running->post("/rerank", R"({"query":"a","texts":["b","a"],"return_text":true})"));
  ASSERT_TRUE(tei.is_array());
  EXPECT_EQ(tei[0]["text"], "a");
  EXPECT_TRUE(tei[0].contains("score"));
  const Json asked =
      json_of(running->post("/rerank", R"({"query":"a","documents":["b","c"],"method":"yes_no"})"));
  ASSERT_EQ(asked["results"].size(), 2u) << asked;
  for (const Json& row : asked["results"]) {
    EXPECT_GE(row["relevance_score"].get<double>(), 0);
    EXPECT_LE(row["relevance_score"].get<double>(), 1);
  }
  for (const char* bad :
       {R"({"documents":["a"]})", R"({"query":"a"})", R"({"query":"a","documents":[]})",
        R"({"query":"a","documents":[7]})", R"({"query":"a","documents":["a"],"texts":["b"]})",
        R"({"query":"a","documents":["a"],"method":"magic"})", R"({"query":"","documents":["a"]})"})
    EXPECT_EQ(running->post("/rerank", bad).status, 400) << bad;
}

TEST_F(LlamaServerTest, ResponsesHaveLogprobs) {
  const std::string body =
      R"({"input":"Hello","max_output_tokens":6,"seed":1,"ignore_eos":true,"top_logprobs":2)";
  const Json json = json_of(running->post("/v1/responses", body + "}"));
  const Json& part = json["output"][0]["content"][0];
  ASSERT_GE(part["logprobs"].size(), 5u) << json;
  EXPECT_EQ(part["logprobs"][0]["top_logprobs"].size(), 2u);
  EXPECT_LE(part["logprobs"][0]["logprob"].get<double>(), 0);
  EXPECT_THAT(running->post("/v1/responses", body + R"(,"stream":true})").body,
              HasSubstr("\"top_logprobs\":[{"));
  const Json plain = json_of(running->post("/v1/responses", R"({"input":"Hello","max_output_tokens":2})"));
  EXPECT_EQ(plain["output"][0]["content"][0]["logprobs"].size(), 0u);
  const Json included = json_of(running->post(
      "/v1/responses",
      R"({"input":"Hello","max_output_tokens":3,"ignore_eos":true,"include":["message.output_text.logprobs"]})"));
  EXPECT_GT(included["output"][0]["content"][0]["logprobs"].size(), 0u);
}

TEST_F(LlamaServerTest, OllamaAnswersHonestly) {
  EXPECT_THAT(running->post("/api/generate", R"({"prompt":"a","template":"{{ .Prompt }}"})").body,
              HasSubstr("template"));
  EXPECT_EQ(running->post("/api/generate", R"({"prompt":"a","template":"{{ .Prompt }}"})").status, 400);
  EXPECT_EQ(running->post("/api/generate", R"({"prompt":"a","images":["aGk="]})").status, 400);
  for (const char* path : {"/api/create", "/api/copy", "/api/push"}) {
    const Reply reply = running->post(path, R"({"model":"x"})");
    EXPECT_EQ(reply.status, 501) << path;
    EXPECT_THAT(reply.body, HasSubstr("-m")) << path;
  }
  EXPECT_EQ(running->post("/api/pull", R"({"model":"nobody"})").status, 404);
  EXPECT_THAT(running->post("/api/pull", R"({"model":"tiny"})").body, HasSubstr("success"));
  EXPECT_EQ(json_of(running->post("/api/generate", R"({"model":"tiny"})"))["done_reason"], "load");
  EXPECT_EQ(json_of(running->post("/api/generate", R"({"model":"tiny","keep_alive":0})"))["done_reason"],
            "unload");
  EXPECT_EQ(json_of(running->get("/api/ps"))["models"].size(), 0u);
  EXPECT_EQ(running
                ->post("/api/generate",
                       R"({"model":"tiny","prompt":"x","stream":false,"options":{"num_predict":1}})")
                .status,
            200)
      << "and it is loaded again";
}

}  // namespace
}  // namespace butterfly::server
