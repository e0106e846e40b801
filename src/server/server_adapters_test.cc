// A model and its adapters over real sockets: one engine, each with the text that it writes alone.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/json_text.h"
#include "base/random_stream.h"
#include "base/rng.h"
#include "base/testing/source_tree.h"
#include "model/adapter/adapter_write.h"
#include "model/adapter/fresh_adapter.h"
#include "model/arch/adaptable.h"
#include "server/api/json.h"
#include "server/management_client.h"
#include "server/testing/running_server.h"

namespace butterfly::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::Reply;
using testing::RunningServer;

Json json_of(const Reply& reply) { return json_of_text<Json>(reply.body); }

// The model and two adapters, and beside it a server for each of them alone.
class ServerAdapters : public ::testing::Test {
 protected:
  ServerAdapters() {
    testing::write_test_model(folder / "tiny.gguf");
    const model::ModelFile file = model::open_model(folder / "tiny.gguf");
    for (const uint64_t seed : {1, 2}) {
      model::Adapter adapter = model::fresh_adapter(file, {.rank = static_cast<size_t>(4 * seed),
                                                           .modules = {"all-linear"},
                                                           .takes = model::adaptable_tensors(file),
                                                           .seed = seed});
      for (model::LoraPair& pair : adapter.pairs)
        for (int64_t i = 0; i < pair.b.count(); ++i)
          pair.b.data<float>()[i] =
              0.2f * random_normal(seed, random_stream(pair.target), static_cast<uint64_t>(i));
      model::write_gguf_adapter(file_of(seed), adapter, file);
    }
  }
  std::filesystem::path file_of(uint64_t seed) const { return folder / fmt::format("{}.gguf", seed); }
  void add_all(Settings& settings) const {
    settings.models = {"tiny=" + (folder / "tiny.gguf").string()};
    settings.lora = {"one=" + file_of(1).string(), "two=" + file_of(2).string()};
    settings.parallel = 8;
    settings.no_speculation = true;
  }
  static std::string body(const std::string& model, int seed, int tokens = 40) {
    return fmt::format(
        R"({{"model":"{}","prompt":"Some words to begin with, the same for all","max_tokens":{},"seed":{},"logprobs":2,"ignore_eos":true}})",
        model, tokens, seed);
  }
  static Json choice(const Reply& reply) {
    EXPECT_EQ(reply.status, 200) << reply.body;
    return json_of(reply)["choices"][0];
  }
  static Json ps(RunningServer& running) {
    return json_of_text<Json>(
        ask_server(running.server().management_path(), "GET", "/manage/ps").body)["models"];
  }
  butterfly::testing::TempDir folder;
};

TEST_F(ServerAdapters, AnswerTogetherAsTheyDoAlone) {
  const std::vector<std::string> names = {"tiny", "one", "two"};
  std::vector<Json> want;
  for (size_t i = 0; i < names.size(); ++i) {
    RunningServer alone([&](Settings& settings) {
      add_all(settings);
      settings.lora.clear();
      if (i > 0) settings.lora = {names[i] + "=" + file_of(i).string()};
    });
    want.push_back(choice(alone.post("/v1/completions", body(names[i], 5))));
  }
  ASSERT_NE(want[0], want[1]);
  ASSERT_NE(want[1], want[2]);
  RunningServer running([&](Settings& settings) { add_all(settings); });
  // Two of each at once, so that they share steps.
  std::vector<Json> got(2 * names.size());
  {
    std::vector<std::jthread> clients;
    for (size_t i = 0; i < got.size(); ++i)
      clients.emplace_back(
          [&, i] { got[i] = choice(running.post("/v1/completions", body(names[i % names.size()], 5))); });
  }
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(got[i], want[i % names.size()]) << names[i % names.size()];

  const Json list = json_of(running.get("/v1/models"))["data"];
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[1]["parent"], "tiny");
  const Json state = ps(running);
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(state[i]["generated_tokens"], 80) << names[i];
  EXPECT_GT(state[0]["weight_bytes"].get<uint64_t>(), 0u);
  EXPECT_EQ(state[1]["weight_bytes"], 0) << "they are in memory once";
  EXPECT_GT(state[2]["bytes"].get<uint64_t>(), state[1]["bytes"].get<uint64_t>()) << "twice the rank";
  const std::string metrics = running.get("/metrics").body;
  EXPECT_THAT(metrics, HasSubstr("vllm:generation_tokens_total{model_name=\"two\"} 80"));
  EXPECT_THAT(metrics, HasSubstr("butterfly_engine_steps_total{model_name=\"tiny\"}"));
  EXPECT_THAT(metrics, Not(HasSubstr("butterfly_engine_steps_total{model_name=\"two\"}"))) << "one engine";
}

// An adapter that is loaded, and one that goes, while others answer.
TEST_F(ServerAdapters, ComeAndGoWhileOthersAnswer) {
  RunningServer running([&](Settings& settings) {
    add_all(settings);
    settings.lazy = true;
  });
  const Json want = choice(running.post("/v1/completions", body("tiny", 5, 200)));
  EXPECT_EQ(ps(running)[1]["state"], "unloaded");
  Json got;
  {
    const std::jthread client([&] { got = choice(running.post("/v1/completions", body("tiny", 5, 200))); });
    for (int i = 0; i < 3; ++i) {
      choice(running.post("/v1/completions", body("one", 1, 4)));
      choice(running.post("/v1/completions", body("two", 1, 4)));
      for (const char* name : {"one", "two"})
        ask_server(running.server().management_path(), "POST", "/manage/unload",
                   fmt::format(R"({{"model":"{}"}})", name));
    }
  }
  EXPECT_EQ(got, want);
}

TEST(ServerAdapter, IsAModelOfItsOwn) {
  const std::filesystem::path data = shared_data();
  const auto model = data / "models/tinystories-656k/tinystories-656k-f32.gguf";
  const auto adapter = data / "lora/tinystories-656k/adapter.gguf";
  if (!std::filesystem::exists(model) || !std::filesystem::exists(adapter))
    GTEST_SKIP() << "no ../shared/data with an adapter for tinystories-656k";
  RunningServer running([&](Settings& s) {
    s.models = {"stories=" + model.string()};
    s.lora = {"adapted=" + adapter.string()};
  });
  const Json list = json_of(running.get("/v1/models"));
  EXPECT_EQ(list["data"][1]["id"], "adapted");
  EXPECT_EQ(list["data"][1]["parent"], "stories");
  const auto first_logprob = [&](const char* name) {
    const Reply reply = running.post(
        "/v1/completions",
        fmt::format(
            R"({{"model":"{}","prompt":"Once upon a time","max_tokens":4,"temperature":0,"logprobs":1}})",
            name));
    EXPECT_EQ(reply.status, 200) << reply.body;
    return json_of(reply)["choices"][0]["logprobs"]["token_logprobs"][0].get<double>();
  };
  EXPECT_NE(first_logprob("stories"), first_logprob("adapted"));
}

}  // namespace
}  // namespace butterfly::server
