// Every architecture in every common type and two head layouts: next-token distributions against llama.cpp's.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "base/testing/test_name.h"
#include "compare.h"
#include "model/adapter/adapter_write.h"
#include "runtime/testing/models.h"
#include "train/train_run.h"

namespace butterfly::runtime {
namespace {

namespace fs = std::filesystem;
using butterfly::testing::compare;
using butterfly::testing::expect_agreement;
using butterfly::testing::LlamaCppFiles;
using butterfly::testing::oracle_logits;
using butterfly::testing::OracleJob;
using butterfly::testing::our_logits;
using testing::small_options;
using testing::some_tokens;

constexpr size_t kPositions = 64;

struct Layout {
  const char* name;
  uint32_t heads, kv_heads, head_length;
};

// Grouped heads; and one KV head per head, of another size than embedding / heads where the architecture has
// that.
std::vector<Layout> layouts_of(std::string_view architecture) {
  const bool own_size = architecture.starts_with("qwen3") || architecture.starts_with("gemma");
  if (architecture == "gpt2") return {{"8 heads of 32", 8, 8, 0}, {"4 heads of 64", 4, 4, 0}};
  return {{"8/2 heads of 32", 8, 2, 0},
          own_size ? Layout{"8/8 heads of 64", 8, 8, 64} : Layout{"4/4 heads of 64", 4, 4, 0}};
}

// What published files have: gpt-oss is the one with MXFP4.
std::vector<DType> types_of(std::string_view architecture) {
  if (architecture == "gpt-oss") return {DType::kF32, DType::kF16, DType::kQ8_0, DType::kMXFP4};
  return {DType::kF32, DType::kF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_K, DType::kQ6_K};
}

class LlamaCpp : public LlamaCppFiles, public ::testing::WithParamInterface<std::string_view> {};

TEST_P(LlamaCpp, NextTokenDistributionsAgree) {
  struct Case {
    std::string name;
    DType type;
    OracleJob job;
  };
  std::vector<Case> cases;
  const auto tokens = some_tokens(kPositions, 320);
  for (const Layout& layout : layouts_of(GetParam()))
    for (DType type : types_of(GetParam())) {
      model::RandomModelOptions options = small_options(GetParam(), type);
      options.head_count = layout.heads;
      options.head_count_kv = layout.kv_heads;
      options.head_length = layout.head_length;
      const fs::path path = dir_ / fmt::format("{}.gguf", cases.size());
      model::write_random_model(path, options);
      cases.push_back({fmt::format("{:<9} {:<16} {:<5}", GetParam(), layout.name, dtype_name(type)),
                       type,
                       {.model = path, .tokens = tokens, .context = 256}});
    }
  // phi3 has other factors beyond its first length, 256 here.
  if (GetParam() == "phi3") {
    Case longer = cases[0];
    longer.name = "phi3      long context     F32  ";
    longer.job.context = 512;
    cases.push_back(longer);
  }
  std::vector<OracleJob> jobs;
  for (const Case& c : cases) jobs.push_back(c.job);
  const auto theirs = oracle_logits(jobs);
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto own = our_logits(cases[i].job.model, tokens, cases[i].job.context);
    // With experts and rounded activations a near tie of two may go either way.
    const bool ties = model::open_model(cases[i].job.model).has("blk.1.ffn_gate_inp.weight") &&
                      dtype_info(cases[i].type).quantised();
    expect_agreement(cases[i].name, cases[i].type, theirs[i], own, kPositions, ties ? 3 : 0);
  }
}

// llama.cpp is given our text token by token: where each is its likeliest one, it would have written the
// same.
TEST_P(LlamaCpp, GreedyTextsAreEqual) {
  constexpr size_t kPrompt = 12, kNew = 36;
  const fs::path path = dir_ / "model.gguf";
  model::write_random_model(path, small_options(GetParam(), DType::kF32));
  std::vector<int32_t> tokens = some_tokens(kPrompt, 320);
  {
    testing::Loaded loaded(path);
    const auto written = testing::greedy(loaded, tokens, kNew).ids;
    tokens.insert(tokens.end(), written.begin(), written.end());
  }
  ASSERT_EQ(tokens.size(), kPrompt + kNew);
  const auto logits = oracle_logits({{.model = path, .tokens = tokens, .context = 512}})[0];
  for (size_t i = kPrompt; i < tokens.size(); ++i) {
    const auto row = std::span(logits).subspan((i - 1) * 320, 320);
    ASSERT_EQ(std::max_element(row.begin(), row.end()) - row.begin(), tokens[i]) << "token " << i - kPrompt;
  }
}

// What adapters of do nothing, or something else, in llama.cpp of 2026-08-22.
std::vector<std::string> not_adapted_there(std::string_view architecture) {
  // Its attention over latents and the head behind it pass adapters over.
  if (architecture == "deepseek2") return {"attn_q", "attn_q_a", "attn_q_b", "attn_kv_a_mqa", "output"};
  // It multiplies the product by the expert's scale, and then adds the adapter; Hugging Face's model
  // multiplies the sum.
  if (architecture == "gemma4moe") return {"ffn_down_exps"};
  return {};
}

// An adapter for every matrix that takes one here, in one file.
TEST_P(LlamaCpp, AdaptersOfEveryMatrixAgree) {
  const auto tokens = some_tokens(kPositions, 320);
  const fs::path path = dir_ / "model.gguf", adapter = dir_ / "adapter.gguf";
  model::RandomModelOptions options = small_options(GetParam(), DType::kF32);
  model::write_random_model(path, options);
  const model::ModelFile file = model::open_model(path);
  // It looks adapters up by the file's names, and a head without a matrix of its own has none.
  std::vector<std::string> without = not_adapted_there(GetParam());
  if (!file.has("output.weight")) without.push_back("output");
  model::write_gguf_adapter(adapter, testing::full_adapter(file, without), file);
  const auto theirs = oracle_logits({{.model = path, .tokens = tokens, .context = 128, .adapter = adapter}});
  const auto own = our_logits(path, tokens, 128, {{adapter, 1}});
  // Its gelu is a table of f16, and that may decide between two experts that are as good.
  const size_t left_out = GetParam() == "gemma4moe" ? 1 : 0;
  expect_agreement(fmt::format("{:<9} with an adapter of everything", GetParam()), DType::kF32, theirs[0],
                   own, kPositions, left_out);
  EXPECT_GT(compare(our_logits(path, tokens, 128), own, 320, 0).mean_kl, 0.01) << "it changes something";
}

TEST_F(LlamaCppFiles, AdaptersAgree) {
  const fs::path data = testing::kModels / "..";
  const fs::path adapter = data / "lora" / "tinystories-656k" / "adapter.gguf";
  BF_SKIP_WITHOUT(adapter);
  const auto tokens = some_tokens(kPositions, 2048);
  for (const char* base : {"tinystories-656k-f32.gguf", "tinystories-656k-q8_0.gguf"})
    for (double scale : {1.0, -0.5}) {
      const fs::path path = data / "models" / "tinystories-656k" / base;
      const auto theirs = oracle_logits(
          {{.model = path, .tokens = tokens, .context = 128, .adapter = adapter, .adapter_scale = scale}});
      const auto own = our_logits(path, tokens, 128, {{adapter, static_cast<float>(scale)}});
      const bool floats = std::string_view(base).find("f32") != std::string_view::npos;
      expect_agreement(fmt::format("{} with a LoRA of scale {}", base, scale),
                       floats ? DType::kF32 : DType::kQ8_0, theirs[0], own, kPositions);
    }
}

// What `finetune` writes. llama.cpp adds adapters in f32 and rounds the base's rows as it always does.
TEST_F(LlamaCppFiles, AdaptersThatLearnedHereAgree) {
  const fs::path data = testing::kModels / "..";
  const fs::path text = data / "datasets" / "text" / "tinyshakespeare.txt";
  BF_SKIP_WITHOUT(text);
  const auto tokens = some_tokens(kPositions, 2048);
  for (const auto& [name, type] :
       {std::pair("f32", DType::kF32), std::pair("q8_0", DType::kQ8_0), std::pair("q4_0", DType::kQ4_0)}) {
    train::TrainConfig config;
    config.base_model =
        (data / "models" / "tinystories-656k" / fmt::format("tinystories-656k-{}.gguf", name)).string();
    config.datasets = {text.string()};
    config.adapter = "lora";
    config.sequence_len = 64;
    config.micro_batch_size = 4;
    config.max_steps = 30;
    config.learning_rate = 2e-3;
    config.output_dir = (dir_ / name).string();
    const fs::path adapter = train::TrainRun(config).run([](const auto&) { return true; }).model;
    const auto theirs =
        oracle_logits({{.model = config.base_model, .tokens = tokens, .context = 128, .adapter = adapter}});
    const auto own = our_logits(config.base_model, tokens, 128, {{adapter, 1}});
    expect_agreement(fmt::format("{} with a LoRA that learned here", name), type, theirs[0], own, kPositions);
    const auto plain = our_logits(config.base_model, tokens, 128);
    EXPECT_GT(compare(plain, own, 2048, 0).mean_kl, 0.01) << "it learned something";
  }
}

std::vector<std::string_view> architecture_names() {
  std::vector<std::string_view> names;
  for (const model::RandomArchitecture& row : model::random_architectures()) names.push_back(row.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Architectures, LlamaCpp, ::testing::ValuesIn(architecture_names()),
                         [](const auto& test) { return butterfly::testing::test_name(test.param); });

}  // namespace
}  // namespace butterfly::runtime
