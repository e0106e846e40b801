// LoRA adapters: llama.cpp's results, PyTorch's merge, several at once, and what is refused.
#include "model/adapter/adapter.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"
#include "base/json_text.h"
#include "graph/executor.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

using testing::kModels;
using testing::read_text;

const auto kLora = kModels / ".." / "lora";

struct Adapted {
  ThreadPool pool{2};
  std::unique_ptr<LoadedModel> model;

  Adapted(const std::filesystem::path& path, std::vector<model::AdapterSpec> adapters) {
    LoadOptions options;
    options.with_tokenizer = false;
    options.adapters = std::move(adapters);
    model = load_model(path, pool, options);
  }
  std::vector<float> logits(const std::vector<int32_t>& tokens) {
    CachedLayers layers(*model, pool,
                        {.positions = 0, .sequences = 1, .kv_type = DType::kF32, .rows_max = 512});
    std::vector<BatchRow> rows;
    for (int32_t token : tokens) rows.push_back({token, 0, static_cast<uint32_t>(rows.size()), true});
    const auto result = layers.run(rows);
    return {result.begin(), result.end()};
  }
};

const auto kBase = kModels / "tinystories-656k" / "tinystories-656k-f32.gguf";
const auto kAdapter = kLora / "tinystories-656k" / "adapter.gguf";

// A model and its adapter hold the matrices once, and compute what they would alone.
TEST(Adapter, SharesTheMatricesOfItsModel) {
  BF_SKIP_WITHOUT(kAdapter);
  for (const char* type : {"f32", "q8_0"}) {
    const auto file = kBase.parent_path() / fmt::format("tinystories-656k-{}.gguf", type);
    if (!std::filesystem::exists(file)) continue;
    ThreadPool pool(2);
    LoadOptions options;
    options.with_tokenizer = false;
    options.weights = std::make_shared<SharedWeights>();
    Adapted together(file, {}), adapted(file, {{kAdapter, 1}}), alone(file, {{kAdapter, 1}});
    together.model = load_model(file, pool, options);
    EXPECT_EQ(together.model->packed_bytes > 0, alone.model->packed_bytes > 0);
    options.adapters = {{kAdapter, 1}};
    adapted.model = load_model(file, pool, options);
    EXPECT_EQ(adapted.model->packed_bytes, 0u);
    EXPECT_EQ(adapted.model->weights, together.model->weights);
    const std::vector<int32_t> tokens{1, 5, 9};
    EXPECT_EQ(adapted.logits(tokens), alone.logits(tokens));
    EXPECT_NE(adapted.logits(tokens), together.logits(tokens));
    together.model.reset();  // the matrices live on
    EXPECT_EQ(adapted.logits(tokens), alone.logits(tokens));
  }
}

TEST(Adapter, TokensAndProbabilitiesAreLlamaCpps) {
  BF_SKIP_WITHOUT(kAdapter);
  const auto expected = json_of_text<nlohmann::json>(read_text(kAdapter.parent_path() / "expected.json"));
  Adapted adapted(kBase, {{kAdapter, 1}});
  const size_t vocab = adapted.model->config.vocab;
  std::vector<int32_t> tokens = {1};
  const auto greedy = expected["llamacpp_greedy"].get<std::vector<int32_t>>();
  tokens.insert(tokens.end(), greedy.begin(), greedy.end() - 1);
  const auto logits = adapted.logits(tokens);
  for (size_t i = 0; i < greedy.size(); ++i) {
    const auto row = std::span(logits).subspan(i * vocab, vocab);
    EXPECT_EQ(std::max_element(row.begin(), row.end()) - row.begin(), greedy[i]) << "token " << i;
  }
  double worst = 0;
  const auto& tops = expected["llamacpp_top10_after_each"];
  for (size_t r = 0; r < tops.size(); ++r) {
    const auto row = std::span(logits).subspan(r * vocab, vocab);
    double total = 0;
    for (float logit : row) total += std::exp(double{logit});
    for (const auto& top : tops[r])
      worst = std::max(worst,
                       std::abs(std::exp(double{row[top[0].get<size_t>()]}) / total - top[1].get<double>()));
  }
  EXPECT_LT(worst, 2e-5);  // the file has six decimals, and merged weights in numpy are 1e-5 away too
}

TEST(Adapter, ThePeftFolderGivesTheBitsOfItsGguf) {
  BF_SKIP_WITHOUT(kAdapter);
  const std::vector<int32_t> tokens = {1, 147, 201, 282, 215, 286, 598};
  EXPECT_EQ(Adapted(kBase, {{kAdapter.parent_path(), 1}}).logits(tokens),
            Adapted(kBase, {{kAdapter, 1}}).logits(tokens));
}

TEST(Adapter, ScalesAddUpAndZeroIsNothing) {
  BF_SKIP_WITHOUT(kAdapter);
  const std::vector<int32_t> tokens = {1, 147, 201, 282, 215, 286, 598};
  const auto plain = Adapted(kBase, {}).logits(tokens);
  EXPECT_EQ(Adapted(kBase, {{kAdapter, 0}}).logits(tokens), plain);
  const auto whole = Adapted(kBase, {{kAdapter, 1}}).logits(tokens);
  const auto halves = Adapted(kBase, {{kAdapter, 0.75f}, {kAdapter, 0.25f}}).logits(tokens);
  double changed = 0, worst = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    changed = std::max(changed, std::abs(double{whole[i]} - plain[i]));
    worst = std::max(worst, std::abs(double{whole[i]} - halves[i]));
  }
  EXPECT_GT(changed, 0.1);
  EXPECT_LT(worst, 1e-4);
}

TEST(Adapter, AddingEqualsPyTorchsMerge) {
  const auto path = kLora / "torch-goldens" / "training_adapter_merge.json";
  BF_SKIP_WITHOUT(path);
  const auto golden = json_of_text<nlohmann::json>(read_text(path));
  const auto in = golden["hyperparams"]["d_in"].get<int64_t>(),
             out = golden["hyperparams"]["d_out"].get<int64_t>(),
             rank = golden["hyperparams"]["rank"].get<int64_t>();
  const auto matrix = [](const nlohmann::json& values, int64_t rows, int64_t cols, bool transposed) {
    Tensor tensor = Tensor::zeros(DType::kF32, {rows, cols});
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c)
        tensor.data<float>()[r * cols + c] =
            values[static_cast<size_t>(transposed ? c * rows + r : r * cols + c)].get<float>();
    return graph::Parameter{.name = "w", .value = tensor, .packed = kernels::PackedMatrix(tensor)};
  };
  nn::Linear layer;
  layer.weight = matrix(golden["w_burn"], out, in, true);
  layer.adapters.push_back({.a = matrix(golden["down_disk"], rank, in, false),
                            .b = matrix(golden["up_disk"], out, rank, false),
                            .scale = golden["hyperparams"]["scaling"].get<float>()});
  graph::Graph g;
  nn::Builder b(g);
  const auto x = g.input("x", {graph::Elem::kF32, {in, in}});
  const auto y = layer.build(b, x);
  g.mark_output(y);
  graph::Arena arena;
  ThreadPool pool(1);
  graph::Executor run(std::move(g), arena, pool);
  auto* values = reinterpret_cast<float*>(run.input(x));
  for (int64_t i = 0; i < in * in; ++i) values[i] = i % (in + 1) == 0 ? 1.0f : 0.0f;  // unit rows
  run.run(nullptr);
  for (int64_t i = 0; i < in * out; ++i)
    EXPECT_NEAR(run.output(y)[i], golden["merged_burn"][static_cast<size_t>(i)].get<float>(), 1e-6) << i;
}

TEST(Adapter, WhatDoesNotFitIsRefusedInWords) {
  BF_SKIP_WITHOUT(kAdapter);
  const auto message = [](const std::filesystem::path& base, const std::filesystem::path& adapter) {
    try {
      Adapted(base, {{adapter, 1}});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message(kBase, kBase), ::testing::HasSubstr("expected 'adapter'"));
  EXPECT_THAT(message(kModels / "stories260K" / "stories260K.gguf", kAdapter),
              ::testing::HasSubstr("changes a matrix of shape [128, 128]"));
  EXPECT_THAT(message(kModels / "tiny-gpt2-golden" / "tiny-gpt2.gguf", kAdapter),
              ::testing::HasSubstr("is for architecture 'llama'"));
  // A classifier's head is trained besides the adapter.
  EXPECT_THAT(message(kModels / "tiny-gpt2-golden" / "tiny-gpt2.gguf", kLora / "peft-gpt2-classifier"),
              ::testing::HasSubstr("score"));
  EXPECT_THAT(message(kBase, "/nowhere/adapter.gguf"), ::testing::HasSubstr("/nowhere/adapter.gguf"));
}

TEST(Adapter, ScaleIsBehindTheLastColon) {
  EXPECT_EQ(model::parse_adapter_spec("a.gguf").scale, 1);
  EXPECT_EQ(model::parse_adapter_spec("a.gguf:0.5").scale, 0.5f);
  EXPECT_EQ(model::parse_adapter_spec("dir:x/a.gguf:-2").path, "dir:x/a.gguf");
  EXPECT_EQ(model::parse_adapter_spec("c:a.gguf").path, "c:a.gguf");
}

}  // namespace
}  // namespace butterfly::runtime
