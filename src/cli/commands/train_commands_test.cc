// make-corpus, train-tokenizer, train and eval on something tiny, as a user would start them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <utility>

#include "base/json_text.h"
#include "base/testing/temp_dir.h"
#include "cli/console/exit_code.h"
#include "cli/console/interrupt.h"
#include "cli/program.h"
#include "cli/testing/run_captured.h"
#include "train/testing/tiny_runs.h"

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
  std::string bytes(const char* name) const { return read_text_file(path(name)); }

  butterfly::testing::TempDir dir_;
};

// From a model and texts to an adapter that runs, and to one file.
TEST_F(TrainCommands, FinetuneMakesAnAdapterThatRuns) {
  ASSERT_EQ(run({"train", path("cfg.yml"), "--export_type", "Q8_0"}).status, kExitOk);
  const std::string model = path("out/model.gguf");
  const Outcome dry = run({"finetune", model, path("corpus/train.jsonl"), "-o", path("tuned"), "--dry-run"});
  ASSERT_EQ(dry.status, kExitOk) << dry.err;
  EXPECT_THAT(dry.out, HasSubstr("adapter lora: the model stays as it is"));
  EXPECT_THAT(dry.out, ::testing::ContainsRegex("memory   .*: model .*, activations"));
  EXPECT_THAT(dry.out, ::testing::ContainsRegex("time     .* s a step"));
  const Outcome tuned =
      run({"finetune", model, path("corpus/train.jsonl"), "-o", path("tuned"), "--max_steps", "6",
           "--learning_rate", "0.02", "--threads", "1", "--question", "Who?"});
  ASSERT_EQ(tuned.status, kExitOk) << tuned.err;
  const std::string adapter = path("tuned/adapter.gguf");
  EXPECT_THAT(tuned.err, HasSubstr("butterfly chat -m " + model + " --lora " + adapter));
  EXPECT_THAT(tuned.err, HasSubstr("  Who? -> "));
  const auto said = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"run", "-p", "One day", "-n", "16", "--temp", "0", "-t", "1"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome done = run(words);
    EXPECT_EQ(done.status, kExitOk) << done.err;
    return done.out;
  };
  const std::string plain = said({"-m", model}), with = said({"-m", model, "--lora", adapter});
  EXPECT_EQ(said({"-m", model, "--lora", path("tuned/adapter")}), with);
  ASSERT_EQ(
      run({"merge", model, path("merged.gguf"), "--lora", adapter, "--type", "F32", "--allow-requantize"})
          .status,
      kExitOk);
  EXPECT_EQ(run({"show", path("merged.gguf")}).status, kExitOk);
  const Outcome same = run({"merge", model, path("same.gguf"), "--lora", adapter});
  EXPECT_EQ(same.status, kExitOk) << same.err;
  const json shown = json_of_text<json>(run({"show", path("same.gguf"), "--json"}).out);
  EXPECT_EQ(shown["types"][0]["type"],
            json_of_text<json>(run({"show", model, "--json"}).out)["types"][0]["type"]);
  EXPECT_NE(plain, with);
}

TEST_F(TrainCommands, FromTextToAModelThatRuns) {
  const Outcome dry = run({"train", path("cfg.yml"), "--dry-run"});
  EXPECT_EQ(dry.status, kExitOk) << dry.err;
  EXPECT_THAT(dry.out, HasSubstr("4 of 128 tokens"));
  const Outcome nothing = run({"eval", path("cfg.yml"), "--json"});
  EXPECT_NE(nothing.status, kExitOk) << "there is no model of this run yet";
  EXPECT_THAT(nothing.err, HasSubstr("has no checkpoint to score"));
  const Outcome trained = run({"train", path("cfg.yml"), "--export_type", "F32"});
  ASSERT_EQ(trained.status, kExitOk) << trained.err;
  EXPECT_EQ(trained.out, path("out/model.gguf") + "\n");
  EXPECT_THAT(trained.err, ::testing::ContainsRegex("step 3/4  loss .* ETA [0-9]+ (s|min)"));
  EXPECT_THAT(trained.err, ::testing::ContainsRegex("step 4/4  loss .* in [0-9]+ (s|min)"));
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

TEST_F(TrainCommands, AVocabularyCanBeATokenizerJson) {
  const Outcome written =
      run({"train-tokenizer", "-o", path("hf/tokenizer.json"), "--vocab", "320", path("corpus/train.jsonl")});
  ASSERT_EQ(written.status, kExitOk) << written.err;
  const json read = json_of_text<json>(bytes("hf/tokenizer.json"));
  EXPECT_EQ(read["model"]["vocab"].size(), 320u);
  EXPECT_EQ(read["model"]["merges"].size(), 320u - 256 - 3);
  EXPECT_EQ(json_of_text<json>(bytes("hf/tokenizer_config.json"))["eos_token"], "<|endoftext|>");
}

// Digits in the corners of a picture: the whole way of an image network through the commands.
TEST_F(TrainCommands, ImagesFromIdxFilesToAccuracy) {
  train::testing::write_corner_images(dir_);
  dir_.write("net.toml",
             "input = [4, 4, 1]\n[[layer]]\ntype = 'conv2d'\nout = 4\nkernel = 2\nactivation = 'relu'\n"
             "[[layer]]\ntype = 'linear'\nout = 4\n");
  dir_.write(
      "images.yml",
      "model:\n  network: net.toml\ndatasets: some-images-idx3-ubyte\n"
      "test_datasets: some-images-idx3-ubyte\nmicro_batch_size: 20\nnum_epochs: 6\nlearning_rate: 2e-2\n"
      "threads: 1\noutput_dir: images\n");
  const Outcome dry = run({"train", path("images.yml"), "--dry-run"});
  EXPECT_EQ(dry.status, kExitOk) << dry.err;
  EXPECT_THAT(dry.out, HasSubstr("60 of 20 images (20 x 1)"));
  EXPECT_THAT(bytes("images/memory.svg"), HasSubstr("</svg>"));
  const Outcome trained = run({"train", path("images.yml")});
  ASSERT_EQ(trained.status, kExitOk) << trained.err;
  EXPECT_THAT(trained.err, ::testing::ContainsRegex("images/s .*validation .*, 100.00 % right"));
  const Outcome eval = run({"eval", path("images.yml")});
  EXPECT_THAT(eval.out, HasSubstr("100.00 % of 200 images right")) << eval.err;
  const Outcome of_file = run({"eval", path("images.yml"), "-m", path("images/model.gguf"), "--json"});
  EXPECT_EQ(of_file.status, kExitOk) << of_file.err;
  EXPECT_EQ(json_of_text<json>(of_file.out)["accuracy"], 1.0);
  EXPECT_THAT(run({"run", path("images/model.gguf"), "-p", "a"}).err, HasSubstr("image"));
}

// A pipe that is full from the start: whoever writes into it waits until it is read.
struct FullPipe {
  int read_end = -1, write_end = -1;
  size_t filled = 0;

  FullPipe() {
    int ends[2];
    if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) return;
    read_end = ends[0];
    write_end = ends[1];
    while (write(write_end, "x", 1) == 1) ++filled;
    fcntl(read_end, F_SETFL, 0);
    fcntl(write_end, F_SETFL, 0);
  }
  ~FullPipe() {
    close(read_end);
    close(write_end);
  }
  // What was written behind the filling, until the last writer is gone.
  std::string rest() {
    close(std::exchange(write_end, -1));
    std::string text;
    char part[4096];
    for (ssize_t got = 0; (got = read(read_end, part, sizeof(part))) > 0;)
      text.append(part, static_cast<size_t>(got));
    return text.substr(std::min(filled, text.size()));
  }
};

// Stopped in the middle and started again, the file is that of a run in one piece. The child cannot get past
// the line that it prints after its first step before the signal is there, however fast it is.
TEST_F(TrainCommands, TerminateSavesACheckpointAndTheSameCommandGoesOn) {
  const std::vector<std::string> command = {"train", path("cfg.yml"), "--max_steps", "30"};
  FullPipe err;
  ASSERT_GT(err.filled, 0u);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (dup2(err.write_end, STDERR_FILENO) < 0) _exit(99);
    close(std::exchange(err.read_end, -1));
    install_interrupt_handler();
    _exit(run_program(command));
  }
  // Metrics of a step are written just before its line.
  int status = 0;
  bool ended = false;
  while (!ended && !std::filesystem::exists(path("out/metrics.jsonl"))) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ended = waitpid(child, &status, WNOHANG) == child;
  }
  if (!ended) kill(child, SIGTERM);
  const std::string said = err.rest();
  if (!ended) {
    ASSERT_EQ(waitpid(child, &status, 0), child);
  }
  ASSERT_TRUE(WIFEXITED(status)) << said;
  EXPECT_EQ(WEXITSTATUS(status), kExitInterrupted) << said;
  EXPECT_THAT(said, ::testing::ContainsRegex("stopped at step 1, .* the same command goes on"));
  const Outcome rest = run(command);
  ASSERT_EQ(rest.status, kExitOk) << rest.err;
  EXPECT_THAT(rest.err, HasSubstr("goes on from step 1\n"));
  std::vector<std::string> whole = command;
  whole.insert(whole.end(), {"--output_dir", path("whole")});
  ASSERT_EQ(run(whole).status, kExitOk);
  EXPECT_EQ(bytes("out/model.gguf"), bytes("whole/model.gguf"));
}

}  // namespace
}  // namespace butterfly::cli
