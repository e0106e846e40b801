// run, convert, quantize, perplexity, list, import and rm on a small random model, as a user would start
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/testing/temp_dir.h"
#include "cli/console/exit_code.h"
#include "cli/testing/run_captured.h"

namespace butterfly::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ModelCommands : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("XDG_DATA_HOME", (dir_ / "data").c_str(), 1);
    unsetenv("BUTTERFLY_MODELS");
    model_ = (dir_ / "small.gguf").string();
    const Outcome made =
        run({"make-model", model_, "--dim",   "64",  "--hidden",  "96",  "--layers", "2",   "--heads", "4",
             "--kv-heads", "2",    "--vocab", "600", "--context", "128", "--type",   "f32", "--seed",  "7"});
    ASSERT_EQ(made.status, kExitOk) << made.err;
  }
  void TearDown() override { unsetenv("XDG_DATA_HOME"); }
  std::string path(const char* name) const { return (dir_ / name).string(); }

  butterfly::testing::TempDir dir_;
  std::string model_;
};

TEST_F(ModelCommands, QuantizeWritesTheTypes) {
  const Outcome done = run({"quantize", model_, path("q.gguf"), "q8_0", "-t", "2"});
  EXPECT_EQ(done.status, kExitOk) << done.err;
  EXPECT_THAT(done.out, IsEmpty());
  EXPECT_THAT(done.err, HasSubstr("wrote " + path("q.gguf")));
  const json shown = json_of_text<json>(run({"show", path("q.gguf"), "--json"}).out);
  EXPECT_EQ(shown["types"][0]["type"], "Q8_0");
  const Outcome again = run({"quantize", path("q.gguf"), path("r.gguf"), "Q4_0"});
  EXPECT_EQ(again.status, kExitUsage);
  EXPECT_THAT(again.err, HasSubstr("--allow-requantize does it all the same"));
  EXPECT_EQ(run({"quantize", path("q.gguf"), path("r.gguf"), "Q4_0", "--allow-requantize"}).status, kExitOk);
  EXPECT_THAT(run({"quantize", model_, path("s.gguf"), "Q4_K_M"}).err, HasSubstr("they got another type"));
  const Outcome unknown = run({"quantize", model_, path("x.gguf"), "Q7"});
  EXPECT_EQ(unknown.status, kExitUsage);
  EXPECT_THAT(unknown.err, HasSubstr("no file type 'Q7'; there are F32, F16"));
  EXPECT_EQ(run({"quantize", model_, model_, "F16"}).status, kExitUsage);
  EXPECT_THAT(run({"quantize", "--help"}).out, HasSubstr("Q4_K_M"));
}

TEST_F(ModelCommands, RunWritesTheSameTextInStepsOfAnySize) {
  const auto told = [&](const char* batch, const char* tokens) {
    const Outcome done = run({"run", model_, "-p", "Some words to begin with", "-n", tokens, "-b", batch,
                              "--seed", "3", "--ignore-eos", "--json", "-t", "2"});
    EXPECT_EQ(done.status, kExitOk) << done.err;
    return json_of_text<json>(done.out);
  };
  const json whole = told("512", "20");
  EXPECT_EQ(whole["tokens"].size(), 20u);
  EXPECT_EQ(whole["stop_reason"], "length");
  EXPECT_EQ(whole["eval_tokens"], 19);
  for (const char* batch : {"0", "1", "7", "100000"}) EXPECT_EQ(told(batch, "20")["tokens"], whole["tokens"]);
  EXPECT_EQ(told("512", "0")["text"], "");
  EXPECT_EQ(told("512", "-1")["stop_reason"], "context full");
}

TEST_F(ModelCommands, RunSaysWhatToDoAboutALongPrompt) {
  const Outcome done = run({"run", model_, "-p", std::string(2000, 'x'), "-c", "16"});
  EXPECT_EQ(done.status, kExitUsage);
  EXPECT_THAT(done.err, HasSubstr("the context holds 16; use a larger -c or a shorter prompt"));
}

TEST_F(ModelCommands, ConvertKeepsOrChangesTypes) {
  EXPECT_EQ(run({"convert", model_, path("same.gguf")}).status, kExitOk);
  EXPECT_EQ(run({"convert", model_, path("half.gguf"), "--type", "bf16"}).status, kExitOk);
  EXPECT_EQ(json_of_text<json>(run({"show", path("same.gguf"), "--json"}).out)["types"][0]["type"], "F32");
  EXPECT_EQ(json_of_text<json>(run({"show", path("half.gguf"), "--json"}).out)["types"][0]["type"], "BF16");
}

TEST_F(ModelCommands, PerplexityPrintsTheValue) {
  dir_.write("text.txt", std::string(400, 'a') + " the rest of a text that nobody would write");
  const Outcome text = run({"perplexity", "-m", model_, "-f", path("text.txt"), "-c", "32", "--chunks", "2"});
  EXPECT_EQ(text.status, kExitOk) << text.err;
  EXPECT_THAT(text.out, HasSubstr("PPL = "));
  const json found = json_of_text<json>(
      run({"perplexity", "-m", model_, "-f", path("text.txt"), "-c", "32", "--chunks", "2", "--json"}).out);
  EXPECT_EQ(found["chunks"], 2);
  EXPECT_EQ(found["tokens"], 30);
  EXPECT_GT(found["perplexity"].get<double>(), 1);
  EXPECT_EQ(run({"perplexity", "-m", model_, "-p", "short"}).status, kExitUsage);
  // The model was trained for 128 positions: more of them measure something else.
  const json own = json_of_text<json>(
      run({"perplexity", "-m", model_, "-f", path("text.txt"), "--chunks", "1", "--json"}).out);
  EXPECT_EQ(own["n_ctx"], 128);
  EXPECT_THAT(run({"perplexity", "-m", model_, "-f", path("text.txt"), "-c", "200", "--chunks", "1"}).err,
              HasSubstr("-c 200 is beyond the 128 positions"));
}

TEST_F(ModelCommands, StoredModelsHaveNames) {
  EXPECT_EQ(json_of_text<json>(run({"list", "--json"}).out), json::array());
  EXPECT_EQ(run({"import", model_, "mine"}).status, kExitOk);
  EXPECT_THAT(run({"list"}).out, HasSubstr("mine"));
  const json list = json_of_text<json>(run({"list", "--json"}).out);
  EXPECT_EQ(list[0]["name"], "mine");
  EXPECT_EQ(list[0]["type"], "llama F32");
  const std::time_t now = std::time(nullptr);
  char year[5];
  std::strftime(year, sizeof year, "%Y", std::gmtime(&now));
  EXPECT_THAT(list[0]["modified"].get<std::string>(), ::testing::StartsWith(std::string(year, 3)))
      << "written in this decade";
  EXPECT_THAT(run({"show", "-m", "mine"}).out, HasSubstr("architecture  llama"));
  EXPECT_EQ(run({"tokenize", "-m", "mine", "-p", "x"}).status, kExitOk);
  EXPECT_EQ(run({"run", "-m", "mine", "-p", "x", "-n", "2", "-q"}).status, kExitOk);
  const Outcome wrong = run({"show", "-m", "mune"});
  EXPECT_EQ(wrong.status, kExitUsage);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean 'mine'?"));
  EXPECT_EQ(run({"import", dir_.write("bad.gguf", "nonsense").string()}).status, kExitUsage);
  EXPECT_THAT(run({"show", "-m", "quite-another"}).err, HasSubstr("'butterfly import FILE' adds one"));
  EXPECT_EQ(run({"rm", "mine"}).status, kExitOk);
  EXPECT_EQ(run({"rm", "mine"}).status, kExitUsage);
  EXPECT_EQ(run({"show", "-m", "mine"}).status, kExitUsage);
}

}  // namespace
}  // namespace butterfly::cli
