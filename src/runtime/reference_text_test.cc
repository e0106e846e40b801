// Real weights give their documented text, token by token, and other engines' probabilities.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "base/json_text.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

using testing::greedy;
using testing::kModels;
using testing::Loaded;
using testing::read_text;

nlohmann::json read_json(const std::filesystem::path& path) {
  return json_of_text<nlohmann::json>(read_text(path));
}

TEST(Stories260K, EveryFormatGivesThePublishedText) {
  const auto dir = kModels / "stories260K";
  BF_SKIP_WITHOUT(dir);
  const std::string text200 = read_text(dir / "expected-greedy-200.txt");
  const auto llamacpp = read_json(dir / "llamacpp-greedy.json")["greedy"].get<std::vector<int32_t>>();
  for (const char* name : {"stories260K.gguf", "stories260K.bin", "stories260K-v1.bin"}) {
    Loaded loaded(dir / name);
    EXPECT_EQ(greedy(loaded, {1}, 200).text, text200) << name;
    EXPECT_EQ(greedy(loaded, {1}, llamacpp.size()).ids, llamacpp) << name;
    EXPECT_EQ(greedy(loaded, {1}, llamacpp.size(), DType::kF16).ids, llamacpp)
        << name << " with an f16 cache";
  }
}

TEST(Stories260K, LogitsEqualThePlainFloatPass) {
  const auto dir = kModels / "stories260K";
  BF_SKIP_WITHOUT(dir);
  const auto computed = read_json(dir / "computed-greedy-ids.json");
  const auto ids = computed["greedy_ids"].get<std::vector<int32_t>>();
  Loaded loaded(dir / "stories260K.gguf");
  CachedLayers layers(*loaded.model, loaded.pool,
                      {.positions = 0, .sequences = 1, .kv_type = DType::kF32, .rows_max = 512});
  std::vector<BatchRow> rows = {{1, 0, 0, true}};
  for (uint32_t i = 1; i < 4; ++i) rows.push_back({ids[i - 1], 0, i, true});
  const auto logits = layers.run(rows);
  const auto& want = computed["logits_after_first_4_tokens"];
  ASSERT_EQ(want.size(), 4u);
  double worst = 0;
  for (size_t r = 0; r < 4; ++r)
    for (size_t i = 0; i < 512; ++i)
      worst = std::max(worst, std::abs(logits[r * 512 + i] - want[r][i].get<double>()));
  EXPECT_LT(worst, 1e-4);  // the file has five decimals
}

// llama.cpp's tokens are fed one by one; at each the best logit must be llama.cpp's choice. Both engines
// round activations to 8 bits (llama.cpp also the scale, to f16), so with quantised weights a choice between
// two logits that are closer than that rounding may fall either way.
struct NearTies {
  size_t count = 0;
  double largest_margin = 0;
};
NearTies follow(Loaded& loaded, const std::vector<int32_t>& tokens) {
  const size_t vocab = loaded.model->config.vocab;
  CachedLayers layers(*loaded.model, loaded.pool,
                      {.positions = 0, .sequences = 1, .kv_type = DType::kF32, .rows_max = 512});
  std::vector<BatchRow> rows = {{1, 0, 0, true}};
  for (uint32_t i = 0; i + 1 < tokens.size(); ++i) rows.push_back({tokens[i], 0, i + 1, true});
  const auto logits = layers.run(rows);
  NearTies ties;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto row = logits.subspan(i * vocab, vocab);
    const auto best = std::max_element(row.begin(), row.end());
    if (best - row.begin() == tokens[i]) continue;
    ++ties.count;
    ties.largest_margin = std::max(ties.largest_margin, double(*best) - row[static_cast<size_t>(tokens[i])]);
  }
  return ties;
}

TEST(TinyStories656K, EveryTypeChoosesLlamaCppsTokens) {
  const auto dir = kModels / "tinystories-656k";
  BF_SKIP_WITHOUT(dir);
  const auto expected = read_json(dir / "llamacpp-greedy.json");
  const auto tokens = [&](const char* key) { return expected[key]["greedy"].get<std::vector<int32_t>>(); };

  Loaded f32(dir / "tinystories-656k-f32.gguf");
  const auto f32_tokens = tokens("the same weights as an F32 GGUF");
  EXPECT_EQ(greedy(f32, {1}, f32_tokens.size()).ids, f32_tokens);
  const auto text = read_json(dir / "computed-greedy.json");
  const auto computed = text["greedy_ids"].get<std::vector<int32_t>>();
  EXPECT_EQ(greedy(f32, {1}, computed.size()).ids, computed);

  Loaded q8_0(dir / "tinystories-656k-q8_0.gguf");
  const auto q8_tokens = tokens("tinystories-656k-q8_0.gguf");
  EXPECT_EQ(greedy(q8_0, {1}, q8_tokens.size()).ids, q8_tokens);

  Loaded q4_0(dir / "tinystories-656k-q4_0.gguf");
  const NearTies ties = follow(q4_0, tokens("tinystories-656k-q4_0.gguf"));
  EXPECT_LE(ties.count, 1u);
  EXPECT_LT(ties.largest_margin, 0.02);
}

TEST(TinyQuantized, ProbabilitiesAreLlamaCppsWithinItsOwnRounding) {
  const auto dir = kModels / "tiny-quantized-llamacpp";
  BF_SKIP_WITHOUT(dir);
  const auto all = read_json(dir / "expected.json");
  for (const char* name : {"llama-256-q4_k_m", "llama-256-q4_0", "qwen2-256-q8_0"}) {
    const auto& expected = all[name];
    Loaded loaded(dir / (std::string(name) + ".gguf"), 2, /*with_tokenizer=*/false);
    const size_t vocab = loaded.model->config.vocab;
    CachedLayers layers(*loaded.model, loaded.pool,
                        {.positions = 0, .sequences = 1, .kv_type = DType::kF32, .rows_max = 512});
    std::vector<BatchRow> rows;
    for (int32_t token : expected["prompt"].get<std::vector<int32_t>>())
      rows.push_back({token, 0, static_cast<uint32_t>(rows.size()), true});
    const auto logits = layers.run(rows);
    double worst = 0;
    for (size_t r = 0; r < rows.size(); ++r) {
      const auto row = logits.subspan(r * vocab, vocab);
      const double max = *std::max_element(row.begin(), row.end());
      double total = 0;
      for (float logit : row) total += std::exp(logit - max);
      for (const auto& entry : expected["llamacpp_top10_after_each_prompt_token"][r]) {
        const double p = std::exp(row[entry[0].get<size_t>()] - max) / total;
        worst = std::max(worst, std::abs(p - entry[1].get<double>()));
      }
    }
    RecordProperty(std::string(name) + ".worst", std::to_string(worst));
    // What rounding activations to 8 bits costs llama.cpp against float activations. We round too, to other
    // values (llama.cpp also rounds its scales), so that the two errors add as independent ones do.
    EXPECT_LT(worst, std::sqrt(2.0) * expected["largest_probability_difference"].get<double>()) << name;
  }
}

// Logits after each token, from one run.
std::vector<float> logits_of(Loaded& loaded, const std::vector<int32_t>& tokens) {
  CachedLayers layers(*loaded.model, loaded.pool,
                      {.positions = 0, .sequences = 1, .kv_type = DType::kF32, .rows_max = 512});
  std::vector<BatchRow> rows;
  for (int32_t token : tokens) rows.push_back({token, 0, static_cast<uint32_t>(rows.size()), true});
  const auto logits = layers.run(rows);
  return {logits.begin(), logits.end()};
}

TEST(TinyGpt2, LogitsArePyTorchs) {
  const auto dir = kModels / "tiny-gpt2-golden";
  BF_SKIP_WITHOUT(dir);
  const auto golden = read_json(dir / "golden.json");
  Loaded loaded(dir / "tiny-gpt2.gguf", 2, /*with_tokenizer=*/false);
  const auto logits = logits_of(loaded, golden["input_ids"].get<std::vector<int32_t>>());
  ASSERT_EQ(logits.size(), golden["logits"].size());
  double worst = 0;
  for (size_t i = 0; i < logits.size(); ++i)
    worst = std::max(worst, std::abs(logits[i] - golden["logits"][i].get<double>()));
  EXPECT_LT(worst, 1e-5);
}

TEST(TinyQwen2, LogitsAndTokensAreLlamaCpps) {
  const auto dir = kModels / "tiny-qwen2-llamacpp";
  BF_SKIP_WITHOUT(dir);
  const auto expected = read_json(dir / "expected.json");
  Loaded loaded(dir / "tiny-qwen2-f32.gguf", 2, /*with_tokenizer=*/false);
  const auto prompt = expected["prompt"].get<std::vector<int32_t>>();
  const auto logits = logits_of(loaded, prompt);
  const auto& want = expected["logits_after_prompt_token_0"];
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i)
    worst = std::max(worst, std::abs(logits[i] - want[i].get<double>()));
  EXPECT_LT(worst, 1e-5);
  // The gaps along the greedy path are 0.05 and more, so that every choice is certain.
  const auto choices = expected["greedy_first_16"].get<std::vector<int32_t>>();
  auto tokens = prompt;
  tokens.insert(tokens.end(), choices.begin(), choices.end());
  const auto all = logits_of(loaded, tokens);
  const size_t vocab = loaded.model->config.vocab;
  for (size_t i = 0; i < choices.size(); ++i) {
    const auto row = std::span(all).subspan((prompt.size() - 1 + i) * vocab, vocab);
    EXPECT_EQ(std::max_element(row.begin(), row.end()) - row.begin(), choices[i]) << "token " << i;
  }
}

}  // namespace
}  // namespace butterfly::runtime
