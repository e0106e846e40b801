// Training runs whose layers lie on several members, in one process over links in memory: the model file of
// one machine, also when a stage is lost in the middle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/temp_dir.h"
#include "model/synthetic/random_model.h"
#include "runtime/training/testing/train_nodes.h"
#include "runtime/training/training_leader.h"
#include "train/testing/tiny_runs.h"

namespace butterfly::runtime {
namespace {

using train::RunProgress;
using train::TrainConfig;
using train::TrainRun;

struct PipelineTest : ::testing::Test {
  TrainConfig config(const std::string& out, bool tied = false) {
    train::testing::write_tiny_texts(dir);
    TrainConfig c = train::testing::tiny_text_config(dir, out);
    c.model.num_hidden_layers = 4;
    c.model.tie_word_embeddings = tied;
    c.test_datasets = {(dir / "corpus/valid.jsonl").string()};
    c.eval_steps = 5;
    c.gradient_accumulation_steps = 6;
    c.max_steps = 10;
    c.weight_decay = 0.1;
    c.export_type = "F32";
    return c;
  }
  static std::string alone(const TrainConfig& config) {
    TrainRun run(config);
    return read_text_file(run.run([](const RunProgress&) { return true; }).model);
  }
  std::string together(TrainConfig config, size_t stages, size_t others, uint64_t memory_bytes = 0,
                       const std::function<void(uint64_t step)>& after = {}) {
    config.pipeline_stages = stages;
    TrainRun run(config);
    TrainingLeader leader({.run = &run,
                           .nodes = [this] { return nodes.up(); },
                           .connect = nodes.connect(),
                           .nodes_wanted = others,
                           .snapshot_every = 4,
                           .memory_bytes = memory_bytes,
                           .room_wait = std::chrono::seconds(20),
                           .say = [this](const std::string& line) { said += line + "\n"; }});
    const auto result = run.run(
        [&](const RunProgress& progress) {
          if (after) after(progress.step);
          return true;
        },
        &leader);
    report = leader.report();
    return read_text_file(result.model);
  }

  butterfly::testing::TempDir dir;
  testing::TrainNodes nodes;
  TrainingReport report;
  std::string said;
};

TEST_F(PipelineTest, FileOfOneMachine) {
  const std::string expected = alone(config("alone"));
  nodes.start("a");
  EXPECT_EQ(together(config("two"), 2, 1), expected);
  EXPECT_EQ(report.plan.stages.size(), 2);
  nodes.start("b");
  EXPECT_EQ(together(config("three"), 3, 2), expected);
  EXPECT_EQ(report.plan.stages.size(), 3);
  EXPECT_EQ(report.counters.rollbacks, 0);
}

TEST_F(PipelineTest, HeadThatSharesTheEmbedding) {
  const std::string expected = alone(config("alone", true));
  for (const char* name : {"a", "b"}) nodes.start(name);
  EXPECT_EQ(together(config("three", true), 3, 2), expected);
  EXPECT_EQ(report.plan.stages.size(), 3);
}

TEST_F(PipelineTest, StagesThatAreLost) {
  const std::string expected = alone(config("alone", true));
  for (const char* name : {"a", "b", "c"}) nodes.start(name);
  EXPECT_EQ(together(config("lost", true), 3, 3, 0,
                     [&](uint64_t step) {
                       if (step == 3) nodes.end("a");
                       if (step == 6) nodes.end("b");
                       if (step == 7) nodes.start("d");
                     }),
            expected);
  EXPECT_GE(report.counters.lost, 2);
  EXPECT_GE(report.counters.rollbacks, 1);
}

// Recurrent layers, and adapters of experts, of the layers that stand in for attention, and of the head.
TEST_F(PipelineTest, AdaptersOfHybridsWithExperts) {
  const auto adapter = [&](const std::string& out, const std::string& architecture) {
    model::RandomModelOptions sizes;
    sizes.architecture = architecture;
    sizes.vocabulary_size = 288;
    sizes.context_length = 64;
    sizes.embedding_length = sizes.feed_forward_length = 64;
    sizes.block_count = model::random_architecture(architecture).layers;
    sizes.head_count = 4;
    sizes.head_count_kv = 2;
    sizes.expert_count = 4;
    sizes.predicting_blocks = model::random_architecture(architecture).predicts ? 1 : 0;
    model::write_random_model(dir / architecture, sizes);
    TrainConfig c = config(out + architecture);
    c.base_model = (dir / architecture).string();
    c.tokenizer.clear();
    c.adapter = "lora";
    c.lora_r = 4;
    c.lora_target_modules = {"all-linear", "ffn_gate_exps", "ffn_down_exps", "lm_head"};
    c.dropout = 0;
    c.lora_dropout = 0.1;
    c.max_steps = 3;
    c.gradient_accumulation_steps = 3;
    return c;
  };
  for (const char* architecture : {"qwen35moe", "glm4moe"}) {
    const std::string expected = alone(adapter("alone", architecture));
    for (const char* name : {"a", "b"}) nodes.start(name);
    EXPECT_EQ(together(adapter("three", architecture), 3, 2), expected) << architecture;
    EXPECT_EQ(report.plan.stages.size(), 3) << architecture;
    for (const char* name : {"a", "b"}) nodes.end(name);
  }
  TrainConfig whole = adapter("gemma4", "gemma4");
  whole.lora_target_modules = {"all-linear"};
  nodes.start("a");
  try {
    together(whole, 2, 1);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("need the whole model on each node"));
  }
}

// An adapter beside a quantised model whose layers lie on several nodes, also with one that is lost.
TEST_F(PipelineTest, AdaptersOfOneMachine) {
  for (const bool tied : {false, true}) {
    TrainConfig full = config(tied ? "base-tied" : "base", tied);
    full.export_type = "Q8_0";
    full.max_steps = 2;
    TrainRun making(full);
    const std::string base = making.run([](const RunProgress&) { return true; }).model.string();
    const auto adapter = [&](const char* out) {
      TrainConfig c = config(std::string(out) + (tied ? "-tied" : ""), tied);
      c.base_model = base;
      c.tokenizer.clear();
      c.adapter = "lora";
      c.lora_r = 4;
      c.dropout = 0;
      c.lora_dropout = 0.1;
      return c;
    };
    const std::string expected = alone(adapter("alone"));
    nodes.start("a");
    EXPECT_EQ(together(adapter("two"), 2, 1), expected);
    EXPECT_EQ(report.plan.stages.size(), 2);
    nodes.start("b");
    EXPECT_EQ(together(adapter("three"), 3, 2), expected);
    EXPECT_EQ(report.plan.stages.size(), 3);
    EXPECT_EQ(together(adapter("lost"), 3, 2, 0,
                       [&](uint64_t step) {
                         if (step == 3) nodes.end("a");
                       }),
              expected);
    EXPECT_GE(report.counters.lost, 1);
    nodes.end("b");
  }
}

// What neither one node nor two have room for trains on three: two say so, and wait for one more.
TEST_F(PipelineTest, MemoryOfThree) {
  TrainConfig c = config("alone");
  c.model.hidden_size = 64;
  const std::string expected = alone(c);
  c.output_dir = (dir / "small").string();
  c.pipeline_stages = 3;
  uint64_t whole = 0;
  {
    TrainRun run(c);
    for (const cluster::TrainPiece& piece : pipeline_config(run, 1).pieces) whole += piece.bytes;
  }
  const uint64_t each = whole * 45 / 100;
  nodes.start("a", each);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    nodes.start("b", each);
  });
  EXPECT_EQ(together(c, 3, 1, each), expected);
  later.join();
  EXPECT_THAT(said, ::testing::HasSubstr("too little memory"));
  EXPECT_EQ(report.plan.stages.size(), 3);
}

TEST_F(PipelineTest, TooLittleMemoryIsAnError) {
  TrainConfig c = config("none");
  c.pipeline_stages = 2;
  TrainRun run(c);
  TrainingLeader leader({.run = &run,
                         .nodes = [this] { return nodes.up(); },
                         .connect = nodes.connect(),
                         .memory_bytes = 1000,
                         .room_wait = std::chrono::milliseconds(10)});
  EXPECT_THROW(run.run([](const RunProgress&) { return true; }, &leader), Error);
}

TEST_F(PipelineTest, GoesOnAloneFromItsCheckpoint) {
  const std::string expected = alone(config("alone", true));
  nodes.start("a");
  TrainConfig c = config("both", true);
  c.save_steps = 4;
  c.pipeline_stages = 2;
  {
    TrainRun run(c);
    TrainingLeader leader(
        {.run = &run, .nodes = [this] { return nodes.up(); }, .connect = nodes.connect(), .nodes_wanted = 1});
    EXPECT_FALSE(run.run([](const RunProgress& progress) { return progress.step < 6; }, &leader).finished);
  }
  c.pipeline_stages = 0;
  EXPECT_EQ(alone(c), expected);
}

}  // namespace
}  // namespace butterfly::runtime
