// make-corpus, train-tokenizer, train and eval on something tiny, as a user would start them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/json_text.h"
#include "base/testing/temp_dir.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/program.h"
#include "cli/testing/run_captured.h"

namespace butterfly::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class TrainCommands : public ::testing::Test {
 protected:
  void SetUp() override {
    const Outcome corpus =
        run({"make-corpus", path("corpus"), "--items", "200", "--valid", "10", "--questions", "5"});
    ASSERT_EQ(corpus.status, kExitOk) << corpus.err;
    const Outcome vocabulary =
        run({"train-tokenizer", "-o", path("t.gguf"), "--vocab", "320", "--special", "<|end|>", "--special",
             "<|user|>", "--special", "<|assistant|>", "--eos", "<|end|>", path("corpus/train.jsonl")});
    ASSERT_EQ(vocabulary.status, kExitOk) << vocabulary.err;
    dir_.write("chat.jinja",
               "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|end|>"
               "{% if add_generation_prompt %}<|assistant|>{% endif %}");
    std::ofstream(path("cfg.yml"))
        << "tokenizer: t.gguf\nchat_template: chat.jinja\ndatasets: [corpus/train.jsonl]\n"
           "test_datasets: [corpus/valid.jsonl]\nmodel:\n  name: Tiny\n  hidden_size: 32\n"
           "  intermediate_size: 64\n  num_hidden_layers: 1\n  num_attention_heads: 2\n"
           "  max_position_embeddings: 64\nsequence_len: 64\nmicro_batch_size: 2\nmax_steps: 4\n"
           "threads: 1\noutput_dir: out\n";
  }
  std::string path(const char* name) const { return (dir_ / name).string(); }
  std::string bytes(const char* name) const {
    std::ostringstream text;
    text << std::ifstream(path(name), std::ios::binary).rdbuf();
    return text.str();
  }

  butterfly::testing::TempDir dir_;
};

TEST_F(TrainCommands, FromTextToAModelThatRuns) {
  const Outcome dry = run({"train", path("cfg.yml"), "--dry-run"});
  EXPECT_EQ(dry.status, kExitOk) << dry.err;
  EXPECT_THAT(dry.out, HasSubstr("4 of 128 tokens"));
  const Outcome trained = run({"train", path("cfg.yml"), "--export_type", "F32"});
  ASSERT_EQ(trained.status, kExitOk) << trained.err;
  EXPECT_EQ(trained.out, path("out/model.gguf") + "\n");
  EXPECT_THAT(trained.err, HasSubstr("step 4/4  loss "));
  const json shown = json_of_text<json>(run({"show", path("out/model.gguf"), "--json", "--metadata"}).out);
  EXPECT_EQ(shown["metadata"]["general.name"], "Tiny");
  const Outcome loss = run({"eval", path("cfg.yml"), "--json"});
  EXPECT_EQ(loss.status, kExitOk) << loss.err;
  EXPECT_EQ(json_of_text<json>(loss.out)["step"], 4);
  const Outcome asked =
      run({"eval", "-m", path("out/model.gguf"), "--questions", path("corpus/questions.jsonl"), "--json"});
  EXPECT_EQ(asked.status, kExitOk) << asked.err;
  EXPECT_EQ(json_of_text<json>(asked.out)["asked"], 5);
  const Outcome chat =
      run({"run", path("out/model.gguf"), "--chat", "-p", "What is 1 plus 1?", "-n", "3", "--json"});
  EXPECT_EQ(chat.status, kExitOk) << chat.err;
  EXPECT_EQ(json_of_text<json>(chat.out)["prompt_tokens"].get<size_t>(),
            json_of_text<json>(run({"tokenize", path("out/model.gguf"), "--special", "--json", "-p",
                                    "<|user|>What is 1 plus 1?<|end|><|assistant|>"})
                                   .out)
                .size());
}

// Stopped in the middle and started again, the file is that of a run in one piece.
TEST_F(TrainCommands, TerminateSavesACheckpointAndTheSameCommandGoesOn) {
  const std::vector<std::string> command = {"train", path("cfg.yml"), "--max_steps", "400"};
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (std::freopen(path("err.txt").c_str(), "w", stderr) == nullptr) _exit(99);
    install_interrupt_handler();
    // The first line of metrics is written after the first step; the signal comes in one of the next.
    std::thread([out = path("out/metrics.jsonl")] {
      while (!std::filesystem::exists(out)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      kill(getpid(), SIGTERM);
    }).detach();
    const int status = run_program(command);
    std::fflush(stderr);
    _exit(status);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), kExitInterrupted);
  EXPECT_THAT(bytes("err.txt"), ::testing::ContainsRegex("stopped at step .* the same command goes on"));
  const Outcome rest = run(command);
  ASSERT_EQ(rest.status, kExitOk) << rest.err;
  EXPECT_THAT(rest.err, HasSubstr("goes on from step "));
  std::vector<std::string> whole = command;
  whole.insert(whole.end(), {"--output_dir", path("whole")});
  ASSERT_EQ(run(whole).status, kExitOk);
  EXPECT_EQ(bytes("out/model.gguf"), bytes("whole/model.gguf"));
}

}  // namespace
}  // namespace butterfly::cli
