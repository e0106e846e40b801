// Whole small runs: the same model file whatever stopped, resumed or shared the work.
#include "train/train_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "base/error.h"
#include "base/testing/temp_dir.h"
#include "model/formats/gguf_writer.h"
#include "model/formats/model_file.h"
#include "train/corpus/corpus.h"
#include "train/data/token_store.h"
#include "train/metrics.h"
#include "train/testing/tiny_runs.h"

namespace butterfly::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct TrainRunTest : ::testing::Test {
  TrainRunTest() { testing::write_tiny_texts(dir); }

  TrainConfig config(const char* out) const {
    TrainConfig c = testing::tiny_text_config(dir, out);
    c.test_datasets = {(dir / "corpus/valid.jsonl").string()};
    c.gradient_accumulation_steps = 3;
    c.max_steps = 6;
    c.save_steps = 2;
    c.eval_steps = 3;
    return c;
  }
  // Stopped after each of these steps, started again each time.
  RunResult train(const TrainConfig& c, std::vector<uint64_t> stops = {}) const {
    for (const uint64_t stop : stops) {
      const RunResult part = TrainRun(c).run([&](const RunProgress& p) { return p.step < stop; });
      EXPECT_FALSE(part.finished);
      EXPECT_EQ(part.step, stop);
    }
    return TrainRun(c).run([](const RunProgress&) { return true; });
  }

  butterfly::testing::TempDir dir;
};

TEST_F(TrainRunTest, TheModelFileIsTheSameHoweverItWasMade) {
  const RunResult plain = train(config("plain"));
  ASSERT_TRUE(plain.finished);
  EXPECT_EQ(plain.step, 6u);
  ASSERT_TRUE(plain.valid.has_value());
  const std::string expected = read_text_file(plain.model);
  EXPECT_GT(expected.size(), 10000u);

  EXPECT_EQ(read_text_file(train(config("stopped"), {1, 3}).model), expected);
  TrainConfig other = config("workers");
  other.workers = 4;
  other.dataloader_num_workers = 0;
  EXPECT_EQ(read_text_file(train(other).model), expected);
  other = config("prefetch");
  other.workers = 2;
  other.dataloader_num_workers = 3;
  other.dataloader_prefetch_factor = 2;
  other.gradient_checkpointing = true;
  EXPECT_EQ(read_text_file(train(other, {4}).model), expected);

  other = config("seed");
  other.seed = 43;
  EXPECT_NE(read_text_file(train(other).model), expected);
}

// An adapter beside a model of the same size; rates at which something is learned in six steps.
TrainConfig adapter_config(TrainConfig c, const std::filesystem::path& base) {
  c.base_model = base.string();
  c.tokenizer.clear();
  c.adapter = "lora";
  c.lora_r = 4;
  c.lora_dropout = 0.1;
  c.dropout = 0;
  return c;
}

TEST_F(TrainRunTest, TheAdapterIsTheSameHoweverItWasMade) {
  TrainConfig full = config("base");
  full.export_type = "Q8_0";
  const std::filesystem::path base = train(full).model;
  const auto adapter = [&](const char* out) { return adapter_config(config(out), base); };
  const RunResult plain = train(adapter("plain"));
  ASSERT_TRUE(plain.finished);
  EXPECT_EQ(plain.model, dir / "plain/adapter.gguf");
  const std::string expected = read_text_file(plain.model),
                    peft = read_text_file(dir / "plain/adapter/adapter_model.safetensors");
  EXPECT_EQ(read_text_file(train(adapter("stopped"), {1, 3, 4}).model), expected);
  EXPECT_EQ(read_text_file(dir / "stopped/adapter/adapter_model.safetensors"), peft);
  TrainConfig other = adapter("workers");
  other.workers = 3;
  other.threads = 2;
  other.gradient_checkpointing = true;
  EXPECT_EQ(read_text_file(train(other).model), expected);
  // Going on from either form is the same, and something else than the beginning.
  std::vector<std::string> further;
  for (const char* from : {"plain/adapter.gguf", "plain/adapter"}) {
    other = adapter(further.empty() ? "from-gguf" : "from-peft");
    other.lora_model_dir = (dir / from).string();
    further.push_back(read_text_file(train(other).model));
  }
  EXPECT_EQ(further[0], further[1]);
  EXPECT_NE(further[0], expected);
  // Another base under the same name is not gone on with.
  full.seed = 7;
  full.output_dir = (dir / "other").string();
  other = adapter_config(config("stopped"), train(full).model);
  EXPECT_THROW(TrainRun{other}, Error);
}

// Validation gets worse at once with such a rate: what is written is the best, and the run ends early.
TEST_F(TrainRunTest, TheBestIsWrittenAndPatienceEnds) {
  const std::filesystem::path base = train(config("base")).model;
  TrainConfig c = adapter_config(config("best"), base);
  c.learning_rate = 1;
  c.eval_steps = 1;
  c.max_steps = 40;
  c.load_best_model_at_end = true;
  c.early_stopping_patience = 3;
  const RunResult result = train(c);
  ASSERT_TRUE(result.finished);
  EXPECT_LT(result.step, 40u);
  EXPECT_EQ(result.model_step + 3, result.step);
  const std::string best = read_text_file(result.model);
  EXPECT_EQ(read_text_file(train(c).model), best);  // has ended already
  c = adapter_config(config("as-long"), base);
  c.learning_rate = 1;
  c.max_steps = 40;
  c.eval_steps = 0;
  const RunResult stopped = TrainRun(c).run([&](const RunProgress& p) { return p.step < result.model_step; });
  EXPECT_EQ(stopped.step, result.model_step);
}

TEST_F(TrainRunTest, PreferencesAreLearned) {
  const std::filesystem::path base = train(config("base")).model;
  std::string lines;
  for (int i = 0; i < 12; ++i)
    lines +=
        R"({"prompt":"Which?","chosen":"The red one.","rejected":"A blue )" + std::to_string(i) + "\"}\n";
  dir.write("pairs.jsonl", lines);
  TrainConfig c = adapter_config(config("dpo"), base);
  c.rl = "dpo";
  c.lora_dropout = 0;
  c.sequence_len = 64;
  c.datasets = c.test_datasets = {(dir / "pairs.jsonl").string()};
  c.max_steps = 20;
  double first = 0;
  const RunResult result = TrainRun(c).run([&](const RunProgress& p) {
    if (p.step == 1) first = p.report.loss;
    return true;
  });
  EXPECT_NEAR(first, 0.6931, 1e-3);  // B is zero: nothing is preferred yet
  EXPECT_LT(result.loss, 0.5);
  EXPECT_EQ(result.valid_right, 1.0);
  c.rl.clear();
  c.output_dir = (dir / "not-dpo").string();
  EXPECT_THROW(TrainRun{c}, Error);
}

// Each key of the optimizers reaches them, and a run with it goes on where it stopped.
TEST_F(TrainRunTest, KeysOfOptimizersDecideTheWeights) {
  struct Case {
    const char* name;
    void (*change)(TrainConfig& c);
  };
  const Case kCases[] = {
      {"adamw", [](TrainConfig& c) { c.weight_decay = 0.1; }},
      {"decay_vectors",
       [](TrainConfig& c) {
         c.weight_decay = 0.1;
         c.decay_vectors = true;
       }},
      {"bf16_moments",
       [](TrainConfig& c) {
         c.weight_decay = 0.1;
         c.bf16_moments = true;
       }},
      {"adam",
       [](TrainConfig& c) {
         c.weight_decay = 0.1;
         c.optimizer = "adam";
       }},
      {"sgd",
       [](TrainConfig& c) {
         c.optimizer = "sgd";
         c.momentum = 0.9;
       }},
      {"nesterov",
       [](TrainConfig& c) {
         c.optimizer = "sgd";
         c.momentum = 0.9;
         c.nesterov = true;
       }},
  };
  std::map<std::string, std::string> made_by;  // model file -> case
  for (const Case& each : kCases) {
    TrainConfig c = config(each.name);
    each.change(c);
    const std::string whole = read_text_file(train(c).model);
    const auto [other, is_new] = made_by.emplace(whole, each.name);
    EXPECT_TRUE(is_new) << each.name << " gives what " << other->second << " gives";
    c.output_dir = (dir / (std::string(each.name) + "-stopped")).string();
    EXPECT_TRUE(read_text_file(train(c, {2, 5}).model) == whole) << each.name;
  }
}

TEST_F(TrainRunTest, UpdatesInTheBackwardPassAreAMatterOfMemory) {
  TrainConfig c = config("apart");
  c.gradient_accumulation_steps = 1;
  c.max_grad_norm = 0;
  const std::string apart = read_text_file(train(c).model);
  c.output_dir = (dir / "within").string();
  c.update_in_backward = true;
  EXPECT_TRUE(read_text_file(train(c).model) == apart);
  // It may change when a run goes on.
  c.output_dir = (dir / "both").string();
  TrainRun(c).run([](const RunProgress& p) { return p.step < 3; });
  c.update_in_backward = false;
  EXPECT_TRUE(read_text_file(train(c).model) == apart);
}

// The same arrays with other settings.
void save_again(CheckpointStore& store, const LoadedCheckpoint& loaded) {
  std::map<std::string, std::vector<std::byte>> values;
  std::vector<StatePart> parts;
  for (const auto& [name, part] : loaded.parts) {
    values[name].resize(part.bytes);
    store.read_part(loaded, name, values[name]);
    parts.push_back({name, values[name]});
  }
  store.save(loaded.state, parts);
}

TEST_F(TrainRunTest, CheckpointsFromBeforeAKeyGoOn) {
  TrainConfig c = config("out");
  const std::string expected = read_text_file(train(config("plain")).model);
  TrainRun(c).run([](const RunProgress& p) { return p.step < 2; });
  CheckpointStore store(real_file_system(), dir / "out/checkpoints");
  auto loaded = store.load_latest();
  ASSERT_TRUE(loaded);
  for (const char* key : {"nesterov", "bf16_moments", "decay_vectors", "numerics"})
    ASSERT_EQ(loaded->state.settings.erase(key), 1u) << key;
  save_again(store, *loaded);
  EXPECT_TRUE(read_text_file(train(c).model) == expected);
  c = config("out");
  c.decay_vectors = true;  // the default that it had counts
  EXPECT_THROW(TrainRun{c}, Error);
}

TEST_F(TrainRunTest, LeavesMetricsAndAPlot) {
  const TrainConfig c = config("out");
  const RunResult result = train(c, {4});
  const auto lines = read_metrics(dir / "out/metrics.jsonl");
  ASSERT_EQ(lines.size(), 6u);  // no step twice, though it was stopped
  for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i].step, i + 1);
  EXPECT_LT(lines[5].loss, lines[0].loss);
  EXPECT_TRUE(lines[2].valid && lines[5].valid);
  EXPECT_EQ(*lines[5].valid, *result.valid);
  EXPECT_THAT(read_text_file(dir / "out/loss.svg"), HasSubstr("validation"));
}

TEST_F(TrainRunTest, ARunWithOtherSettingsIsNotContinued) {
  TrainConfig c = config("out");
  TrainRun(c).run([](const RunProgress& p) { return p.step < 2; });
  c.learning_rate = 2e-2;
  try {
    TrainRun run(c);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("learning_rate = 0.01, now it is 0.02"));
  }
}

// After an upgrade that changes bits: the rest of the run would not be that of one machine any more.
TEST_F(TrainRunTest, ARunUnderOtherNumericsIsNotContinued) {
  const TrainConfig c = config("out");
  TrainRun(c).run([](const RunProgress& p) { return p.step < 2; });
  CheckpointStore store(real_file_system(), dir / "out/checkpoints");
  auto loaded = store.load_latest();
  ASSERT_TRUE(loaded);
  loaded->state.settings.at("numerics") = "0";
  save_again(store, *loaded);
  try {
    TrainRun run(c);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("was made with numerics = 0, now it is"));
  }
}

TEST_F(TrainRunTest, TheDryRunSaysWhatWouldBeDone) {
  TrainRun run(config("out"));
  const std::string report = run.report();
  for (const char* words : {"parameters", "windows of 32", "6 of 192 tokens", "activations", "pool/LOAD"})
    EXPECT_THAT(report, HasSubstr(words));
  EXPECT_THAT(run.memory_picture(), HasSubstr("</svg>"));
  EXPECT_FALSE(std::filesystem::exists(dir / "out/model.gguf"));
}

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// A rate that is far too high: the loss of the step was fine, the weights after it are not.
TEST_F(TrainRunTest, WeightsThatAreNotFiniteAreNeitherSavedNorExported) {
  TrainConfig c = config("infinite");
  c.learning_rate = 1e39;
  c.max_grad_norm = 0;
  c.save_steps = 1;
  EXPECT_THAT(error_of([&] { train(c); }), AllOf(HasSubstr("step 1: "), HasSubstr("became")));
  EXPECT_EQ(TrainRun(c).step(), 0u);
  // Floats can hold these, the file cannot.
  c = config("huge");
  c.learning_rate = 1e20;
  c.max_grad_norm = 0;
  c.max_steps = 1;
  EXPECT_THAT(error_of([&] { train(c); }), AllOf(HasSubstr("F16 cannot hold"), HasSubstr("export_type")));
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(c.output_dir) / "model.gguf"));
}

TEST_F(TrainRunTest, OtherDataIsRefusedAndAnotherFolderIsNot) {
  const TrainConfig before = config("data");
  train(before, {2});
  // The same files elsewhere.
  std::filesystem::create_directories(dir / "moved");
  for (const char* name : {"corpus", "data", "tokenizer.gguf"})
    std::filesystem::copy(dir / name, dir / "moved" / name, std::filesystem::copy_options::recursive);
  TrainConfig moved = before;
  moved.tokenizer = (dir / "moved/tokenizer.gguf").string();
  moved.datasets = {(dir / "moved/corpus/train.jsonl").string()};
  moved.output_dir = (dir / "moved/data").string();
  EXPECT_EQ(TrainRun(moved).step(), 6u);
  // The same number of lines in another order.
  std::istringstream lines(read_text_file(moved.datasets[0]));
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) all.insert(all.begin(), line);
  std::ofstream out(moved.datasets[0]);
  for (const std::string& line : all) out << line << "\n";
  out.close();
  EXPECT_THAT(error_of([&] { TrainRun run(moved); }), HasSubstr("was made with data = "));
}

TEST_F(TrainRunTest, GoingOnFromAModelWritesTheTemplateThatWasTaught) {
  TrainConfig c = config("first");
  const std::filesystem::path base = train(c).model;
  c = config("second");
  c.base_model = base.string();
  c.tokenizer.clear();
  c.chat_template = "{% for m in messages %}{{ m.content }};{% endfor %}";
  const std::filesystem::path tuned = train(c).model;
  EXPECT_EQ(model::open_model(tuned).metadata().string("tokenizer.chat_template"), c.chat_template);
  EXPECT_NE(model::open_model(base).metadata().string("tokenizer.chat_template"), c.chat_template);
}

TEST_F(TrainRunTest, ABaseModelWithFewerRowsThanTheTokenizerIsRefused) {
  TrainConfig c = config("first");
  const std::filesystem::path base = train(c).model;
  BpeTrainer trainer({.vocabulary = 320, .special = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}});
  trainer.add_text(read_text_file(dir / "corpus/train.jsonl"));
  model::Metadata metadata;
  metadata.set("general.architecture", std::string("llama"));
  add_tokenizer_metadata(trainer.train(), {.bos = "", .eos = "<|endoftext|>", .padding = ""}, metadata);
  model::GgufWriter(std::move(metadata)).write(dir / "larger.gguf");
  c = config("second");
  c.base_model = base.string();
  c.tokenizer = (dir / "larger.gguf").string();
  EXPECT_THAT(error_of([&] { TrainRun run(c); }), AllOf(HasSubstr("rows for 300"), HasSubstr("has 320")));
}

TEST_F(TrainRunTest, APartOfTheDataIsKeptForValidation) {
  TrainConfig c = config("split");
  c.test_datasets.clear();
  c.val_set_size = 0.1;
  c.warmup_ratio = 0.5;
  c.sample_packing = false;
  const RunResult result = train(c, {2});
  EXPECT_TRUE(result.valid.has_value());
  EXPECT_THAT(TrainRun(c).report(), HasSubstr("of them for validation"));
  EXPECT_EQ(trainer_options(c, 6).schedule.warmup_steps, 3u);
}

// Batches are made ahead within some memory, however many are asked for.
// Texts are tokenised once; what is kept is found by all that decides it.
TEST_F(TrainRunTest, TokensAreKeptForTheNextStart) {
  TrainConfig c = config("kept");
  c.dataset_prepared_path = (dir / "prepared").string();
  const auto files = [&] {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(dir / "prepared")) ++count;
    return count;
  };
  const std::string before = TrainRun(c).report();
  EXPECT_EQ(files(), 2u);  // of learning and of validation
  EXPECT_EQ(TrainRun(c).report(), before);
  EXPECT_EQ(files(), 2u);
  // They are read, and not the texts: others in their place are learned.
  for (const auto& entry : std::filesystem::directory_iterator(dir / "prepared")) {
    TokenStore other;
    for (int i = 0; i < 50; ++i) other.add({{1, 2, 3, 4}});
    other.write(entry.path());
  }
  EXPECT_THAT(TrainRun(c).report(), HasSubstr("50 documents"));
  // Damaged ones are made again.
  for (const auto& entry : std::filesystem::directory_iterator(dir / "prepared"))
    std::filesystem::resize_file(entry.path(), 100);
  EXPECT_EQ(TrainRun(c).report(), before);
  // Other settings, templates, texts and vocabularies are others.
  c.train_on_inputs = true;
  TrainRun questions(c);
  EXPECT_EQ(files(), 4u);
  c.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
  TrainRun templated(c);
  EXPECT_EQ(files(), 6u);
  std::ofstream(dir / "corpus/train.jsonl", std::ios::app) << "{\"text\": \"one more\"}\n";
  TrainRun longer(c);
  EXPECT_EQ(files(), 7u);
  // Without a folder to write to there is a run all the same.
  c.dataset_prepared_path = dir.write("a-file", "").string();
  EXPECT_EQ(TrainRun(c).report(), longer.report());
}

TEST_F(TrainRunTest, ARunThatHasEndedCanBeMadeLonger) {
  TrainConfig c = config("longer");
  train(c, {2});
  TrainConfig more = c;
  more.max_steps = 9;
  const std::string expected = read_text_file(train(more).model);
  EXPECT_EQ(TrainRun(more).step(), 9u);
  // Stopped on the way, and once more; and longer still.
  c.output_dir = (dir / "stopped").string();
  more.output_dir = c.output_dir;
  train(c);
  EXPECT_EQ(read_text_file(train(more, {7, 8}).model), expected);
  EXPECT_NE(read_text_file(train(config("short")).model), expected);
  // One that has not ended keeps its length: the rates of its steps depend on it.
  c.output_dir = (dir / "half").string();
  TrainRun(c).run([](const RunProgress& p) { return p.step < 3; });
  more.output_dir = c.output_dir;
  EXPECT_THAT(error_of([&] { TrainRun run(more); }),
              AllOf(HasSubstr("max_steps = 6, now it is 9"), HasSubstr("come to its end first")));
}

TEST_F(TrainRunTest, TheBestCheckpointCanBeGoneOnFromAndExported) {
  TrainConfig c = adapter_config(config("best"), train(config("base")).model);
  c.learning_rate = 1;  // so that validation gets worse at once
  c.eval_steps = 1;
  c.max_steps = 40;
  c.early_stopping_patience = 3;
  const RunResult last = train(c);
  EXPECT_EQ(last.model_step, last.step);
  const std::string newest = read_text_file(last.model);
  // Exported from a run that has ended.
  c.load_best_model_at_end = true;
  const RunResult best = train(c);
  EXPECT_EQ(best.step, last.step);
  ASSERT_EQ(best.model_step + 3, last.step);
  EXPECT_NE(read_text_file(best.model), newest);
  // Gone on from: the same run, from there.
  c.load_best_model_at_end = false;
  c.resume_from_checkpoint = "best";
  TrainRun again(c);
  EXPECT_EQ(again.step(), best.model_step);
  EXPECT_EQ(read_text_file(again.run([](const RunProgress&) { return true; }).model), newest);
  c.resume_from_checkpoint = "step-0000000999";
  EXPECT_THAT(error_of([&] { TrainRun run(c); }), HasSubstr("step-0000000999"));
}

TEST_F(TrainRunTest, BatchesMadeAheadHaveABound) {
  TrainConfig c = config("ahead");
  EXPECT_THAT(TrainRun(c).report(), HasSubstr("batches made ahead: 128 of"));
  c.gradient_accumulation_steps = 50000;
  c.sequence_len = 64;
  c.datasets = {dir.write("zeros.u16", "").string()};
  c.test_datasets.clear();
  std::filesystem::resize_file(c.datasets[0], 2 * (100000 * 64 + 1));
  EXPECT_THAT(TrainRun(c, RunMode::kDry).report(), HasSubstr("batches made ahead: 5 of"));
}

}  // namespace
}  // namespace butterfly::train
