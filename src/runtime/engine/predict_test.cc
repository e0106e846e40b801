// Engines whose model predicts ahead: the tokens are those without, in fewer steps where predictions are
// right.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/temp_dir.h"
#include "runtime/engine/local_engine.h"
#include "runtime/engine/testing/mixed_requests.h"
#include "runtime/testing/file_parts.h"

namespace butterfly::runtime {
namespace {

using butterfly::testing::TempDir;
using testing::Bits;
using testing::bits_of;
using testing::Collector;
using testing::mixed_request;

constexpr size_t kVocab = 320;

// Visits all tokens before it comes back to one.
size_t follower(size_t token) { return (21 * token + 3) % kVocab; }

Tensor floats(const Shape& shape) { return Tensor::zeros(DType::kF32, shape); }

// The model says the follower of the last token, and so does its block, unless `noise` is in the way: how
// much of what layers would add is left.
void write_model(const std::filesystem::path& path, std::string_view architecture, float noise) {
  model::RandomModelOptions options = testing::small_options(architecture, DType::kF32);
  options.predicting_blocks = 1;
  model::write_random_model(path, options);
  testing::FileParts parts(path);
  const auto dim = static_cast<int64_t>(options.embedding_length);
  for (auto& [name, tensor] : parts.tensors) {
    const bool adds = name.find("attn_output") != std::string::npos ||
                      name.find("ssm_out") != std::string::npos || name.find("ffn_down") != std::string::npos;
    const bool norm = name.find("output_norm") != std::string::npos ||
                      name.find("nextn.enorm") != std::string::npos ||
                      name.find("shared_head_norm") != std::string::npos;
    if (!adds && !norm) continue;
    Tensor changed = floats(tensor.shape());
    for (int64_t i = 0; i < tensor.count(); ++i)
      changed.data<float>()[i] = norm ? 1.0f : noise * tensor.data<float>()[i];
    tensor = changed;
  }
  const Tensor& table = parts.tensors.at("token_embd.weight");
  Tensor head = floats(table.shape());
  for (size_t token = 0; token < kVocab; ++token)
    for (int64_t i = 0; i < dim; ++i)
      head.data<float>()[follower(token) * static_cast<size_t>(dim) + static_cast<size_t>(i)] =
          table.data<float>()[token * static_cast<size_t>(dim) + static_cast<size_t>(i)] / 16;
  parts.tensors.at("output.weight") = head;
  for (auto& [name, tensor] : parts.tensors)
    if (name.ends_with("nextn.eh_proj.weight")) {
      tensor = floats(tensor.shape());  // of the two halves the token's
      for (int64_t i = 0; i < dim; ++i) tensor.data<float>()[i * 2 * dim + i] = 1;
    }
  std::filesystem::remove(path);
  parts.write(path);
}

struct PredictTest : ::testing::TestWithParam<std::string_view> {
  void make(float noise) {
    write_model(dir / "made.gguf", GetParam(), noise);
    loaded = std::make_unique<testing::Loaded>(dir / "made.gguf");
    ASSERT_NE(loaded->model->predictor, nullptr);
  }
  std::unique_ptr<Engine> engine(std::optional<size_t> predict, size_t positions = 0) {
    LocalEngineOptions options;
    options.engine.scheduler.predict_always = predict;
    if (predict == size_t{0}) options.engine.scheduler.speculate = false;
    options.layers.positions = positions;
    return make_local_engine(*loaded->model, loaded->compute, options);
  }
  std::vector<Bits> all(Engine& engine, bool together) {
    std::vector<std::shared_ptr<Collector>> sinks;
    for (size_t i = 0; i < 8; ++i) {
      sinks.push_back(std::make_shared<Collector>());
      EngineRequest r = mixed_request(i);
      if (i % 4 == 1) {  // unlikely tokens, too: predictions that are wrong
        r.sampling.temperature = 4;
        r.sampling.top_k = 0;
        r.sampling.top_p = 1;
        r.sampling.min_p = 0;
      }
      EXPECT_TRUE(engine.submit(std::move(r), sinks.back()).ok());
      if (!together) sinks.back()->wait();
    }
    std::vector<Bits> bits;
    for (auto& sink : sinks) {
      EXPECT_EQ(sink->wait().reason, FinishReason::kLength) << sink->wait().status.text();
      bits.push_back(bits_of(*sink));
    }
    return bits;
  }
  TempDir dir;
  std::unique_ptr<testing::Loaded> loaded;
};

TEST_P(PredictTest, RightPredictionsSaveSteps) {
  make(0);
  std::vector<int32_t> want;
  for (size_t token = 33; want.size() < 200;) want.push_back(static_cast<int32_t>(token = follower(token)));
  for (const size_t predict : {0, 1, 3, 8}) {
    EngineRequest request;
    request.prompt = {7, 100, 33};
    request.tokens_max = 200;
    request.ignore_eos = true;
    request.sampling.temperature = 0;
    const auto running = engine(predict);
    const auto sink = std::make_shared<Collector>();
    ASSERT_TRUE(running->submit(std::move(request), sink).ok());
    EXPECT_EQ(sink->wait().reason, FinishReason::kLength);
    EXPECT_EQ(sink->tokens(), want);
    const EngineStats stats = running->stats();
    EXPECT_EQ(stats.draft_accepted, stats.draft_tokens) << predict;
    // One step reads the prompt, one measures what a step takes, and every 64th goes without guesses.
    EXPECT_LE(stats.steps, 200 / (predict + 1) + 8) << predict;
    EXPECT_EQ(stats.steps + stats.draft_accepted, 200u) << predict;
  }
}

TEST_P(PredictTest, TokensAreThoseWithout) {
  make(4);
  const std::vector<Bits> want = all(*engine(0), false);
  const auto running = engine(3);
  EXPECT_EQ(all(*running, false), want) << "one after the other";
  const EngineStats stats = running->stats();
  EXPECT_GT(stats.draft_accepted, 0u);
  EXPECT_LT(stats.draft_accepted, stats.draft_tokens);
  EXPECT_EQ(stats.chain_resets, 0u);
  EXPECT_EQ(all(*engine(8, 256), true), want) << "all at once, and pages run short";
  EXPECT_EQ(all(*engine(std::nullopt), true), want) << "as many as pay";
}

INSTANTIATE_TEST_SUITE_P(Architectures, PredictTest, ::testing::Values("qwen35", "qwen35moe", "glm4moe"));

TEST(Predict, IsSaidInWordsOrNumbers) {
  EXPECT_EQ(parse_predict("auto"), std::nullopt);
  EXPECT_EQ(parse_predict("off"), 0u);
  EXPECT_EQ(parse_predict("3"), 3u);
  for (const char* text : {"", "on", "-1", "9", "3 "}) EXPECT_THROW(parse_predict(text), Error) << text;
}

}  // namespace
}  // namespace butterfly::runtime
