// The commands on a small random model, as a user would start them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "cli/console/exit_code.h"
#include "cli/testing/run_captured.h"

namespace butterfly::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Commands : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / fmt::format("butterfly_commands_{}", getpid());
    std::filesystem::create_directories(folder_);
    model_ = (folder_ / "small.gguf").string();
    const Outcome made =
        run({"make-model", model_, "--dim",   "64",  "--hidden",  "96",  "--layers", "2",    "--heads", "4",
             "--kv-heads", "2",    "--vocab", "600", "--context", "128", "--type",   "q4_0", "--seed",  "7"});
    ASSERT_EQ(made.status, kExitOk) << made.err;
    EXPECT_THAT(made.out, IsEmpty());
    EXPECT_THAT(made.err, HasSubstr("wrote " + model_));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
  std::string model_;
};

TEST_F(Commands, MakeModelRefusesWhatDoesNotFit) {
  const std::string other = (folder_ / "other.gguf").string();
  const Outcome type = run({"make-model", other, "--type", "Q9_9"});
  EXPECT_EQ(type.status, kExitUsage);
  EXPECT_THAT(type.err, HasSubstr("'Q9_9'"));
  const Outcome heads = run({"make-model", other, "--dim", "96", "--heads", "5"});
  EXPECT_EQ(heads.status, kExitUsage);
  EXPECT_THAT(heads.err, HasSubstr("96 is not a multiple of 5"));
  EXPECT_EQ(run({"make-model"}).status, kExitUsage);
  EXPECT_FALSE(std::filesystem::exists(other));
}

TEST_F(Commands, ShowPrintsTheSizes) {
  const Outcome shown = run({"show", "-m", model_});
  EXPECT_EQ(shown.status, kExitOk);
  EXPECT_THAT(shown.out, HasSubstr("architecture  llama\n"));
  EXPECT_THAT(shown.out, HasSubstr("layers        2\n"));
  EXPECT_THAT(shown.out, HasSubstr("kv heads      2\n"));
  EXPECT_THAT(shown.out, HasSubstr("Q4_0"));
  EXPECT_THAT(shown.out, HasSubstr("llama, 600 tokens"));
  EXPECT_EQ(run({"show", model_}).out, shown.out);
}

TEST_F(Commands, ShowListsTensorsAndMetadataWhenAsked) {
  const Outcome shown = run({"show", model_, "--tensors", "--metadata"});
  EXPECT_THAT(shown.out, HasSubstr("blk.1.ffn_down.weight"));
  EXPECT_THAT(shown.out, HasSubstr("[64, 96]"));
  EXPECT_THAT(shown.out, HasSubstr("llama.attention.head_count_kv"));
  EXPECT_THAT(run({"show", model_}).out, Not(HasSubstr("blk.1.ffn_down.weight")));
}

TEST_F(Commands, ShowJsonHasTheNumbers) {
  const json shown = json_of_text<json>(run({"show", model_, "--json", "--tensors", "--metadata"}).out);
  EXPECT_EQ(shown["architecture"], "llama");
  EXPECT_EQ(shown["layers"], 2);
  EXPECT_EQ(shown["heads"], 4);
  EXPECT_EQ(shown["vocabulary_size"], 600);
  EXPECT_EQ(shown["bytes"], std::filesystem::file_size(model_));
  EXPECT_EQ(shown["tensors"].size(), 2u * 9 + 3);
  EXPECT_EQ(shown["tensors"][0]["shape"], json({600, 64}));
  EXPECT_EQ(shown["metadata"]["tokenizer.ggml.tokens"].size(), 600u);
  uint64_t values = 0;
  for (const json& type : shown["types"]) values += type["values"].get<uint64_t>();
  EXPECT_EQ(shown["parameters"], values);
}

TEST_F(Commands, TokenizePrintsIdsATableOrJson) {
  const Outcome ids = run({"tokenize", "-m", model_, "--ids", "-p", "tata"});
  EXPECT_EQ(ids.status, kExitOk);
  const json parsed = json_of_text<json>(run({"tokenize", "-m", model_, "--json", "-p", "tata"}).out);
  ASSERT_GE(parsed.size(), 2u);
  EXPECT_EQ(parsed[0]["id"], 1);
  EXPECT_EQ(parsed[0]["text"], "<s>");
  std::string joined;
  for (const json& token : parsed) joined += (joined.empty() ? "" : " ") + json_text(token["id"]);
  EXPECT_EQ(ids.out, joined + "\n");
  EXPECT_EQ(line_count(run({"tokenize", "-m", model_, "-p", "tata"}).out), parsed.size());
}

TEST_F(Commands, TokenizeWithoutBosAndWithSpecialTokens) {
  EXPECT_EQ(run({"tokenize", "-m", model_, "--ids", "--no-bos", "-p", ""}).out, "\n");
  EXPECT_EQ(run({"tokenize", "-m", model_, "--ids", "-p", ""}).out, "1\n");
  EXPECT_EQ(run({"tokenize", "-m", model_, "--ids", "--special", "--no-bos", "-p", "</s>"}).out, "2\n");
  EXPECT_NE(run({"tokenize", "-m", model_, "--ids", "--no-bos", "-p", "</s>"}).out, "2\n");
}

TEST_F(Commands, TokenizeShowsControlCharacters) {
  EXPECT_THAT(run({"tokenize", "-m", model_, "--no-bos", "-p", "a\tb\n"}).out, HasSubstr("<0x09>"));
}

TEST_F(Commands, TokenizeReadsFilesAndRefusesTwoTexts) {
  const std::string text = (folder_ / "text.txt").string();
  std::ofstream(text) << "tata";
  EXPECT_EQ(run({"tokenize", "-m", model_, "--ids", "-f", text}).out,
            run({"tokenize", "-m", model_, "--ids", "-p", "tata"}).out);
  EXPECT_EQ(run({"tokenize", "-m", model_, "-f", text, "-p", "x"}).status, kExitUsage);
}

TEST_F(Commands, ModelComesFromTheEnvironmentToo) {
  setenv("BUTTERFLY_MODEL", model_.c_str(), 1);
  EXPECT_THAT(run({"show"}).out, HasSubstr("llama"));
  unsetenv("BUTTERFLY_MODEL");
  const Outcome none = run({"show"});
  EXPECT_EQ(none.status, kExitUsage);
  EXPECT_THAT(none.err, HasSubstr("--model is required"));
}

TEST_F(Commands, ABadFileIsNamedAndTheStatusIsTwo) {
  const std::string bad = (folder_ / "bad.gguf").string();
  std::filesystem::copy_file(model_, bad);
  std::filesystem::resize_file(bad, std::filesystem::file_size(bad) / 2);
  for (const char* command : {"show", "tokenize"}) {
    std::vector<std::string> arguments = {command, "-m", bad};
    if (std::string(command) == "tokenize") arguments.insert(arguments.end(), {"-p", "x"});
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, kExitUsage) << command;
    EXPECT_THAT(outcome.err, HasSubstr(bad)) << command;
    EXPECT_EQ(line_count(outcome.err), 1u) << command;
    EXPECT_THAT(outcome.out, IsEmpty()) << command;
  }
  EXPECT_EQ(run({"show", "-m", (folder_ / "absent.gguf").string()}).status, kExitUsage);
}

}  // namespace
}  // namespace butterfly::cli
