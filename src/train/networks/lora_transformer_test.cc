// Adapters learn beside frozen, quantised weights: gradients against differences, every architecture, one
// result, and what is written is what learned.
#include "train/networks/lora_transformer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/error.h"
#include "base/random_stream.h"
#include "base/rng.h"
#include "base/testing/temp_dir.h"
#include "model/adapter/adapter_write.h"
#include "model/adapter/fresh_adapter.h"
#include "model/arch/adaptable.h"
#include "train/trainer/trainer.h"

namespace butterfly::train {
namespace {

constexpr size_t kLength = 12, kItems = 2;

model::RandomModelOptions sizes_of(const std::string& architecture, DType dtype, uint32_t layers) {
  model::RandomModelOptions sizes;
  sizes.architecture = architecture;
  sizes.vocabulary_size = 272;
  sizes.context_length = 32;
  sizes.embedding_length = 256;
  sizes.block_count = layers;
  sizes.feed_forward_length = 256;
  sizes.head_count = 4;
  sizes.head_count_kv = architecture == "gpt2" ? 4 : 2;
  sizes.expert_count = 4;
  sizes.matrix_type = sizes.vocabulary_type = dtype;
  return sizes;
}

struct Tokens {
  std::vector<int32_t> tokens, targets;
  Tokens() {
    for (size_t i = 0; i < kItems * kLength; ++i) {
      tokens.push_back(static_cast<int32_t>(random_u64(5, 1, i) % 64));
      targets.push_back(static_cast<int32_t>(random_u64(5, 1, i + 1) % 64));
    }
  }
  MicroBatch batch() const { return {.tokens = tokens, .pixels = {}, .targets = targets}; }
};

class LoraTransformerTest : public ::testing::Test {
 protected:
  model::ModelFile base(const std::string& architecture, DType dtype) {
    const auto path = dir_ / (architecture + std::string(dtype_name(dtype)) + ".gguf");
    if (!std::filesystem::exists(path))
      model::write_random_model(
          path, sizes_of(architecture, dtype, model::random_architecture(architecture).layers));
    return model::open_model(path);
  }
  static model::Adapter fresh(const model::ModelFile& file,
                              std::vector<std::string> modules = {"all-linear"}) {
    return model::fresh_adapter(file, {.rank = 4,
                                       .alpha = 8,
                                       .modules = std::move(modules),
                                       .takes = model::adaptable_tensors(file),
                                       .seed = 3});
  }
  static std::unique_ptr<LoraTransformer> network(const model::ModelFile& file, float dropout = 0,
                                                  std::vector<std::string> modules = {"all-linear"}) {
    model::Adapter adapter = fresh(file, std::move(modules));
    return std::make_unique<LoraTransformer>(file, std::move(adapter), TransformerOptions{.length = kLength},
                                             dropout);
  }
  // B as if it had learned already, so that A has gradients too.
  static void fill_b(LoraTransformer& network) {
    for (const auto& [name, tensor] : network.weights())
      if (name.ends_with("lora_b"))
        for (int64_t i = 0; i < tensor.count(); ++i)
          tensor.data<float>()[i] = 0.1f * random_normal(9, random_stream(name), static_cast<uint64_t>(i));
  }
  butterfly::testing::TempDir dir_;
};

std::vector<float> all_values(const LoraTransformer& network) {
  std::vector<float> values;
  for (const auto& [name, tensor] : network.weights())
    values.insert(values.end(), tensor.data<float>(), tensor.data<float>() + tensor.count());
  return values;
}

TEST_F(LoraTransformerTest, OneResultForAnyNumberOfThreads) {
  const Tokens tokens;
  const MicroBatch whole = tokens.batch();
  const size_t half = whole.tokens.size() / 2;
  const std::vector<MicroBatch> batches = {
      {.tokens = whole.tokens.first(half), .pixels = {}, .targets = whole.targets.first(half)},
      {.tokens = whole.tokens.subspan(half), .pixels = {}, .targets = whole.targets.subspan(half)}};
  for (const DType dtype : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_K, DType::kQ6_K, DType::kBF16}) {
    std::vector<std::vector<float>> results;
    for (const auto& [workers, threads] : {std::pair<size_t, size_t>{1, 1}, {1, 3}, {2, 2}}) {
      const auto net = network(base("llama", dtype), 0.1f);
      Trainer trainer(*net, {.optimizer = {.name = "adamw"},
                             .schedule = {.lr = 1e-2},
                             .clip_norm = 1,
                             .workers = workers,
                             .threads_per_worker = threads,
                             .recompute = threads == 3});
      for (int step = 0; step < 3; ++step) trainer.step(batches);
      results.push_back(all_values(*net));
    }
    EXPECT_EQ(results[0], results[1]) << dtype_name(dtype);
    EXPECT_EQ(results[0], results[2]) << dtype_name(dtype);
  }
}

// Only the adapter's memory is the trainer's, and the base is never there as floats.
TEST_F(LoraTransformerTest, TheBaseStaysAsItIs) {
  const model::ModelFile file = base("llama", DType::kQ4_0);
  const auto net = network(file, 0, {"q_proj", "v_proj"});
  EXPECT_EQ(net->weights().size(), 2u * 2 * model::random_architecture("llama").layers);
  EXPECT_TRUE(net->weights().contains("blk.0.attn_q.weight.lora_a"));
  EXPECT_LT(net->frozen_bytes(), file.tensor_bytes() * 11 / 10);
  const Trainer trainer(*net, {.threads_per_worker = 1});
  EXPECT_LT(trainer.memory().optimizer, trainer.memory().weights * 3);
}

// A model that is served and an adapter that learns beside it have the base once.
TEST_F(LoraTransformerTest, MatricesThatAreInMemoryAreTaken) {
  const model::ModelFile file = base("llama", DType::kQ4_0);
  ThreadPool pool(1);
  const model::ModelConfig config = model::read_config(file);
  model::PackedWeights packed;
  model::WeightLoader served(file, pool);
  served.share(packed);
  const auto served_network = model::architecture_of(file).load(config, served, {0, config.layers});
  ASSERT_FALSE(packed.empty());
  const size_t there = packed.size();
  LoraTransformer shares(file, fresh(file), {.length = kLength}, 0, 0, &packed);
  EXPECT_EQ(packed.size(), there) << "nothing was packed again";
  LoraTransformer alone(file, fresh(file), {.length = kLength}, 0);
  const Tokens tokens;
  const auto step = [&](LoraTransformer& net) {
    Trainer trainer(net, {.schedule = {.lr = 1e-2}, .threads_per_worker = 1});
    const MicroBatch batch = tokens.batch();
    trainer.step({&batch, 1});
    return all_values(net);
  };
  EXPECT_EQ(step(shares), step(alone));
}

TEST_F(LoraTransformerTest, WhatIsWrittenIsWhatLearned) {
  for (const char* architecture : {"llama", "gpt2", "qwen2", "phi3", "gemma3"}) {
    const model::ModelFile file = base(architecture, DType::kQ8_0);
    const auto net = network(file);
    fill_b(*net);
    model::write_gguf_adapter(dir_ / "adapter.gguf", net->adapter(), file);
    model::write_peft_adapter(dir_ / "peft", net->adapter(), file, {});
    for (const char* path : {"adapter.gguf", "peft"}) {
      const model::Adapter read = model::open_adapter({dir_ / path, 1}, file);
      ASSERT_EQ(read.pairs.size(), net->adapter().pairs.size()) << architecture << " " << path;
      const LoraTransformer again(file, read, {.length = kLength}, 0);
      EXPECT_EQ(all_values(again), all_values(*net)) << architecture << " " << path;
      EXPECT_EQ(read.scale_of(read.pairs[0]), net->adapter().scale_of(net->adapter().pairs[0]));
    }
  }
}

TEST_F(LoraTransformerTest, WrongModulesAreNamed) {
  const model::ModelFile file = base("llama", DType::kQ8_0), experts = base("qwen3moe", DType::kQ8_0);
  const auto message = [&](const model::ModelFile& of, const char* module) -> std::string {
    try {
      network(of, 0, {module});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message(file, "q_prj").find("did you mean 'q_proj'"), std::string::npos)
      << message(file, "q_prj");
  EXPECT_NE(message(file, "embed_tokens").find("embedding cannot be trained"), std::string::npos);
  EXPECT_NE(message(file, "ffn_up_exps").find("expected some of"), std::string::npos);
  for (const char* module : {"q_proj", "ffn_up_exps", "up_proj", "lm_head"})
    EXPECT_EQ(message(experts, module), "") << module;
}

}  // namespace
}  // namespace butterfly::train
