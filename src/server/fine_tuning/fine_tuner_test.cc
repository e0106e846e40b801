// Jobs over HTTP, from an upload to a model that answers; what they are refused for; and that they go on.
#include "server/fine_tuning/fine_tuner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/file_text.h"
#include "base/json_text.h"
#include "server/testing/running_server.h"

namespace butterfly::server {
namespace {

using namespace std::chrono_literals;
using testing::ask;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Reply;
using testing::RunningServer;

constexpr const char* kKey = "Authorization: Bearer 0123456789abcdef0123\r\n";
constexpr const char* kOther = "Authorization: Bearer fedcba9876543210fedc\r\n";

Json json_of(const Reply& reply) { return json_of_text<Json>(reply.body); }

std::string chat_lines(size_t count) {
  std::string lines;
  for (size_t i = 0; i < count; ++i)
    lines += fmt::format(
                 R"({{"messages":[{{"role":"user","content":"{}"}},{{"role":"assistant","content":"{}"}}]}})",
                 i, i + 1) +
             "\n";
  return lines;
}

struct FineTuningTest : ::testing::Test {
  explicit FineTuningTest(size_t jobs = 3)
      : running([&](Settings& settings) {
          settings.fine_tuning = (dir / "tuning").string();
          settings.fine_tuning_threads = 1;
          settings.fine_tuning_bytes = "64KiB";
          settings.fine_tuning_jobs = jobs;
          settings.api_keys = {"0123456789abcdef0123", "fedcba9876543210fedc"};
        }) {}
  Reply upload(const std::string& content, const std::string& purpose = "fine-tune", const char* key = kKey) {
    const std::string body =
        "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n" + purpose +
        "\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"t.jsonl\"\r\n\r\n" + content +
        "\r\n--b--\r\n";
    return ask(running.port(), "POST", "/v1/files", body,
               std::string(key) + "Content-Type: multipart/form-data; boundary=b\r\n");
  }
  Reply create(const std::string& more, const char* key = kKey) {
    return running.post("/v1/fine_tuning/jobs", "{" + more + "}", key);
  }
  // Until it has ended.
  Json wait(const std::string& id) {
    for (;;) {
      const Json job = json_of(running.get("/v1/fine_tuning/jobs/" + id, kKey));
      const std::string status = job["status"];
      if (status == "succeeded" || status == "failed" || status == "cancelled") return job;
      std::this_thread::sleep_for(20ms);
    }
  }
  butterfly::testing::TempDir dir;
  RunningServer running;
};

TEST_F(FineTuningTest, FromAFileToAModelThatAnswers) {
  const Reply uploaded = upload(chat_lines(24));
  ASSERT_EQ(uploaded.status, 200) << uploaded.body;
  const std::string file = json_of(uploaded)["id"];
  EXPECT_EQ(running.get("/v1/files/" + file + "/content", kKey).body, chat_lines(24));
  EXPECT_EQ(json_of(running.get("/v1/files", kKey))["data"][0]["filename"], "t.jsonl");

  const Reply created = create(fmt::format(
      R"("model":"tiny","training_file":"{}","suffix":"My Count","seed":5,"hyperparameters":{{"n_epochs":8,"batch_size":1}})",
      file));
  ASSERT_EQ(created.status, 200) << created.body;
  const std::string id = json_of(created)["id"];
  const Json job = wait(id);
  ASSERT_EQ(job["status"], "succeeded") << job;
  EXPECT_EQ(job["hyperparameters"]["n_epochs"], 8);
  EXPECT_GT(job["trained_tokens"].get<int>(), 0);
  const std::string model = job["fine_tuned_model"];
  EXPECT_THAT(model, HasSubstr("ft:tiny:butterfly:my-count:"));

  const Json events = json_of(running.get("/v1/fine_tuning/jobs/" + id + "/events?limit=2", kKey));
  EXPECT_EQ(events["data"].size(), 2u);
  EXPECT_EQ(events["has_more"], true);
  EXPECT_EQ(events["data"][0]["message"], "The job has successfully completed") << "the newest first";
  const Json checkpoints = json_of(running.get("/v1/fine_tuning/jobs/" + id + "/checkpoints", kKey));
  ASSERT_GE(checkpoints["data"].size(), 1u);
  const std::string before = checkpoints["data"][0]["fine_tuned_model_checkpoint"];

  const auto answer = [&](const std::string& name) {
    const Reply reply = running.post(
        "/v1/chat/completions",
        fmt::format(
            R"({{"model":"{}","messages":[{{"role":"user","content":"3"}}],"max_tokens":8,"temperature":0}})",
            name),
        kKey);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return json_of(reply)["choices"][0]["message"]["content"].get<std::string>();
  };
  EXPECT_NE(answer(model), answer("tiny")) << "it learned something";
  answer(before);

  // To another key it does not exist, by any way in.
  const std::string named = fmt::format(R"("model":"{}")", model);
  for (const auto& [path, body] :
       {std::pair<const char*, std::string>{"/v1/chat/completions",
                                            R"(,"messages":[{"role":"user","content":"3"}])"},
        {"/v1/completions", R"(,"prompt":"3")"},
        {"/tokenize", R"(,"content":"3")"},
        {"/detokenize", R"(,"tokens":[65])"},
        {"/apply-template", R"(,"messages":[{"role":"user","content":"3"}])"},
        {"/api/show", ""},
        {"/api/pull", ""},
        {"/v1/embeddings", R"(,"input":"3")"}}) {
    const Reply reply = running.post(path, "{" + named + body + "}", kOther);
    EXPECT_EQ(reply.status, 404) << path << " " << reply.body;
    EXPECT_THAT(reply.body, Not(HasSubstr(before))) << "nor is it named";
  }
  for (const char* path : {"/v1/models", "/api/tags", "/api/ps"}) {
    EXPECT_THAT(running.get(path, kOther).body, Not(HasSubstr("my-count"))) << path;
    EXPECT_THAT(running.get(path, kKey).body, HasSubstr("my-count")) << path;
  }
  EXPECT_EQ(running.get("/v1/models/" + model, kOther).status, 404);
  EXPECT_EQ(running.get("/v1/models/" + model, kKey).status, 200);
  const std::string theirs = json_of(upload(chat_lines(24), "fine-tune", kOther))["id"];
  EXPECT_EQ(create(named + fmt::format(R"(,"training_file":"{}")", theirs), kOther).status, 400);

  // The same seed learns the same; a job may go on from another's model.
  const std::string again = json_of(create(fmt::format(
      R"("model":"tiny","training_file":"{}","seed":5,"hyperparameters":{{"n_epochs":8,"batch_size":1}})",
      file)))["id"];
  const Json second = wait(again);
  ASSERT_EQ(second["status"], "succeeded") << second;
  EXPECT_EQ(answer(second["fine_tuned_model"]), answer(model));
  const Json third =
      wait(json_of(create(fmt::format(R"("model":"{}","training_file":"{}")", model, file)))["id"]);
  EXPECT_EQ(third["status"], "succeeded") << third;

  // Three jobs are kept; a model that is deleted makes room.
  const Reply full = create(fmt::format(R"("model":"tiny","training_file":"{}")", file));
  EXPECT_EQ(full.status, 429) << full.body;
  EXPECT_EQ(ask(running.port(), "DELETE", "/v1/models/" + model, {}, kOther).status, 404) << "another key's";
  EXPECT_EQ(json_of(ask(running.port(), "DELETE", "/v1/models/" + model, {}, kKey))["deleted"], true);
  EXPECT_EQ(
      running
          .post("/v1/chat/completions",
                fmt::format(R"({{"model":"{}","messages":[{{"role":"user","content":"3"}}]}})", model), kKey)
          .status,
      404);
}

TEST_F(FineTuningTest, WhatIsWrongIsSaidAsOpenAiDoes) {
  EXPECT_EQ(running.get("/v1/files").status, 401);
  EXPECT_EQ(upload("x", "assistants").status, 400);
  EXPECT_EQ(upload("").status, 400);
  EXPECT_EQ(upload(std::string(70 << 10, 'x')).status, 413);
  EXPECT_EQ(running.post("/v1/files", "{}", std::string(kKey) + "Content-Type: application/json\r\n").status,
            415);
  const std::string file = json_of(upload(chat_lines(8)))["id"];
  const auto code = [&](const std::string& more, int status) {
    const Reply reply = create(more);
    EXPECT_EQ(reply.status, status) << more << reply.body;
    const Json error = json_of(reply)["error"];
    return error["code"].is_string() ? error["code"].get<std::string>() : error["param"].get<std::string>();
  };
  EXPECT_EQ(code(R"("model":"tiny","training_file":"file-x")", 400), "invalid_file");
  EXPECT_EQ(code(fmt::format(R"("model":"none","training_file":"{}")", file), 400), "model_not_available");
  EXPECT_EQ(code(R"("model":"tiny")", 400), "missing_required_parameter");
  EXPECT_EQ(
      code(fmt::format(R"("model":"tiny","training_file":"{}","hyperparameters":{{"n_epochs":-1}})", file),
           400),
      "hyperparameters.n_epochs");
  EXPECT_EQ(
      code(fmt::format(R"("model":"tiny","training_file":"{}","method":{{"type":"reinforcement"}})", file),
           400),
      "method.type");
  EXPECT_EQ(create(fmt::format(R"("model":"tiny","training_file":"{}")", file), kOther).status, 400)
      << "another key's file";
  const Reply none = running.get("/v1/fine_tuning/jobs/ftjob-x", kKey);
  EXPECT_EQ(none.status, 404);
  EXPECT_EQ(json_of(none)["error"]["code"], "fine_tune_not_found");
  EXPECT_EQ(running.get("/v1/fine_tuning/jobs?limit=0", kKey).status, 400);

  // Lines that cannot be read fail the job, with the line.
  const std::string bad = json_of(upload(chat_lines(3) + "{\"nothing\": 1}\n"))["id"];
  const std::string id = json_of(create(fmt::format(R"("model":"tiny","training_file":"{}")", bad)))["id"];
  const Json failed = wait(id);
  EXPECT_EQ(failed["status"], "failed");
  EXPECT_EQ(failed["error"]["code"], "invalid_training_file");
  EXPECT_THAT(failed["error"]["message"].get<std::string>(),
              ::testing::StartsWith(bad + ":4: expected one of the keys"))
      << "nothing of the server's folders";
  EXPECT_EQ(running.get("/v1/fine_tuning/jobs/" + id, kOther).status, 404) << "another key's job";
  EXPECT_EQ(running.post("/v1/fine_tuning/jobs/" + id + "/cancel", "", kKey).status, 400) << "it has ended";
}

// Longer than any other body may be, through the door, a file and a form.
TEST(FineTuningUpload, FilesMayBeLargerThanMemoryGivesToBodies) {
  const butterfly::testing::TempDir dir;
  const RunningServer running([&](Settings& settings) {
    settings.fine_tuning = (dir / "tuning").string();
    settings.fine_tuning_bytes = "12MiB";
  });
  const std::string line = R"({"text":")" + std::string(1000, 'a') + "\"}\n";
  const auto upload = [&](size_t bytes) {
    std::string content;
    while (content.size() < bytes) content += line;
    return ask(running.port(), "POST", "/v1/files",
               "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nfine-tune\r\n--b\r\n"
               "Content-Disposition: form-data; name=\"file\"; filename=\"t.jsonl\"\r\n\r\n" +
                   content + "\r\n--b--\r\n",
               "Content-Type: multipart/form-data; boundary=b\r\n");
  };
  const Reply taken = upload(size_t{10} << 20);
  ASSERT_EQ(taken.status, 200) << taken.body;
  const Json file = json_of(taken);
  EXPECT_GT(file["bytes"].get<size_t>(), size_t{10} << 20);
  EXPECT_EQ(running.get("/v1/files/" + file["id"].get<std::string>() + "/content").status, 400);
  EXPECT_EQ(upload(size_t{14} << 20).status, 413) << "more than one key may keep";
  EXPECT_EQ(ask(running.port(), "POST", "/v1/chat/completions", std::string(size_t{10} << 20, ' ')).status,
            413);
}

TEST_F(FineTuningTest, JobsCanBeCancelled) {
  const std::string file = json_of(upload(chat_lines(200)))["id"];
  const std::string more =
      fmt::format(R"("model":"tiny","training_file":"{}","hyperparameters":{{"n_epochs":50}})", file);
  const std::string first = json_of(create(more))["id"], second = json_of(create(more))["id"];
  EXPECT_EQ(json_of(running.post("/v1/fine_tuning/jobs/" + second + "/cancel", "", kKey))["status"],
            "cancelled");
  while (json_of(running.get("/v1/fine_tuning/jobs/" + first, kKey))["status"] != "running")
    std::this_thread::sleep_for(20ms);
  EXPECT_EQ(running.post("/v1/fine_tuning/jobs/" + first + "/cancel", "", kKey).status, 200);
  EXPECT_EQ(wait(first)["status"], "cancelled");
  EXPECT_EQ(wait(second)["status"], "cancelled");
  EXPECT_EQ(json_of(running.get("/v1/fine_tuning/jobs", kKey))["data"][0]["id"], second)
      << "the newest first";
}

// A process that ends in the middle leaves a checkpoint; the next one ends with the adapter of one that went
// through.
TEST(FineTuner, GoesOnInTheNextProcess) {
  butterfly::testing::TempDir dir;
  testing::write_test_model(dir / "tiny.gguf");
  FileStore files({.folder = dir / "files"});
  const std::string file = files.add(0, "t.jsonl", "fine-tune", chat_lines(24)).id;
  std::vector<ModelSpec> served;
  const auto options = [&](const char* folder, const TuningRun& run) {
    return FineTunerOptions{.folder = dir / folder,
                            .run = run,
                            .find_model = [&](const std::string&) -> std::optional<ModelSpec> {
                              return ModelSpec{.name = "tiny", .path = dir / "tiny.gguf"};
                            },
                            .add_model = [&](ModelSpec spec) { served.push_back(std::move(spec)); },
                            .remove_model = [](const std::string&) { return true; }};
  };
  const auto ask_for = [&](FineTuner& tuner) {
    TuningJob job;
    job.model = "tiny";
    job.training_file = file;
    job.seed = 5;
    job.epochs = 6;
    job.batch_size = 1;
    return tuner.create(std::move(job))["id"].get<std::string>();
  };
  const auto wait = [](FineTuner& tuner, const std::string& id) {
    while (tuner.show(0, id)["finished_at"].is_null()) std::this_thread::sleep_for(10ms);
    return tuner.show(0, id);
  };
  const TuningRun train = local_tuning(1);
  {
    FineTuner whole(options("whole", train), files);
    whole.start();
    EXPECT_EQ(wait(whole, ask_for(whole))["status"], "succeeded");
  }
  ASSERT_FALSE(served.empty());
  const std::string expected = read_text_file(served.front().adapters[0].path);
  served.clear();

  std::string id;
  {
    std::atomic<int> steps{0};
    FineTuner begun(
        options("halves",
                [&](const auto& config, const TuningStep& on_step, const auto& wanted, auto& adapter) {
                  return train(
                      config,
                      [&](auto& run, const auto& progress) {
                        const bool on = on_step(run, progress);
                        if (++steps >= 3)
                          while (wanted()) std::this_thread::sleep_for(5ms);
                        return on && wanted();
                      },
                      wanted, adapter);
                }),
        files);
    begun.start();
    id = ask_for(begun);
    while (steps < 3) std::this_thread::sleep_for(5ms);
    begun.stop();
    EXPECT_EQ(begun.show(0, id)["status"], "running");
    EXPECT_TRUE(served.empty());
  }
  FineTuner after(options("halves", train), files);
  EXPECT_EQ(after.show(0, id)["status"], "queued");
  after.start();
  EXPECT_EQ(wait(after, id)["status"], "succeeded");
  ASSERT_FALSE(served.empty());
  EXPECT_EQ(read_text_file(served.front().adapters[0].path), expected);
  // And once more: what was learned is served from the start.
  after.stop();
  served.clear();
  const FineTuner last(options("halves", train), files);
  ASSERT_FALSE(served.empty());
  EXPECT_EQ(served.front().name, after.show(0, id)["fine_tuned_model"]);
}

}  // namespace
}  // namespace butterfly::server
