// Every architecture in every common type and two head layouts: next-token distributions against llama.cpp's.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include "oracle.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

namespace fs = std::filesystem;
using butterfly::testing::oracle_logits;
using butterfly::testing::oracle_why_not;
using butterfly::testing::OracleJob;
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

struct Comparison {
  double mean_kl = 0;      // of llama.cpp's distributions against ours, over positions
  double worst_logit = 0;  // largest difference
  size_t top1_equal = 0;   // positions where both choose the same token
  size_t decided = 0;      // positions where llama.cpp's best two are further apart than `noise`
  size_t decided_equal = 0;
};

std::vector<double> log_probabilities(std::span<const float> logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (float logit : logits) total += std::exp(logit - max);
  std::vector<double> result;
  for (float logit : logits) result.push_back(logit - max - std::log(total));
  return result;
}

Comparison compare(std::span<const float> theirs, std::span<const float> ours, size_t vocab, double noise) {
  Comparison result;
  const size_t rows = theirs.size() / vocab;
  for (size_t r = 0; r < rows; ++r) {
    const auto p = log_probabilities(theirs.subspan(r * vocab, vocab));
    const auto q = log_probabilities(ours.subspan(r * vocab, vocab));
    for (size_t i = 0; i < vocab; ++i) {
      result.mean_kl += std::exp(p[i]) * (p[i] - q[i]) / static_cast<double>(rows);
      result.worst_logit =
          std::max(result.worst_logit, std::abs(double{theirs[r * vocab + i]} - ours[r * vocab + i]));
    }
    auto sorted = p;
    std::nth_element(sorted.begin(), sorted.begin() + 1, sorted.end(), std::greater<>());
    const bool equal =
        std::max_element(p.begin(), p.end()) - p.begin() == std::max_element(q.begin(), q.end()) - q.begin();
    const double best = *std::max_element(p.begin(), p.end());
    result.top1_equal += equal;
    if (best - sorted[1] > noise) {
      ++result.decided;
      result.decided_equal += equal;
    }
  }
  return result;
}

// Both round: llama.cpp rounds activations to f16 before F16 weights and to 8 bits before quantised ones, as
// we do, but its scales to f16 too, and it sums in another order. Bounds on what that may change.
struct Bounds {
  double mean_kl, noise;
};
Bounds bounds_of(DType type) {
  if (type == DType::kF32) return {1e-6, 2e-3};
  if (type == DType::kF16) return {1e-3, 2e-2};
  return {1e-3, 0.2};
}

class LlamaCppFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = oracle_why_not(); !reason.empty()) GTEST_SKIP() << reason;
    dir_ = fs::temp_directory_path() / fmt::format("butterfly-llamacpp-{}", getpid());
    fs::create_directories(dir_);
  }
  void TearDown() override {
    if (!dir_.empty()) fs::remove_all(dir_);
  }
  std::vector<float> ours(const fs::path& path, const std::vector<int32_t>& tokens, size_t context,
                          std::vector<model::AdapterSpec> adapters = {}) {
    ThreadPool pool(2);
    LoadOptions options;
    options.with_tokenizer = false;
    options.context = context;
    options.adapters = std::move(adapters);
    const auto model = load_model(path, pool, options);
    LocalStage stage(*model, pool,
                     {.positions = context, .sequences = 1, .kv_type = DType::kF32, .rows_max = 512});
    std::vector<BatchRow> rows;
    for (int32_t token : tokens) rows.push_back({token, 0, static_cast<uint32_t>(rows.size()), true});
    const auto logits = stage.run(rows);
    return {logits.begin(), logits.end()};
  }
  fs::path dir_;
};

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
    for (DType type : {DType::kF32, DType::kF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_K, DType::kQ6_K}) {
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
    const auto own = ours(cases[i].job.model, tokens, cases[i].job.context);
    ASSERT_EQ(own.size(), theirs[i].size()) << cases[i].name;
    const Bounds bounds = bounds_of(cases[i].type);
    const Comparison c = compare(theirs[i], own, own.size() / kPositions, bounds.noise);
    fmt::print("{}  mean KL {:8.2e}  largest logit difference {:8.2e}  top-1 {}/{}, decided {}/{}\n",
               cases[i].name, c.mean_kl, c.worst_logit, c.top1_equal, kPositions, c.decided_equal, c.decided);
    EXPECT_LE(c.mean_kl, bounds.mean_kl) << cases[i].name;
    EXPECT_EQ(c.decided_equal, c.decided) << cases[i].name;
    EXPECT_GE(c.decided, kPositions / 2) << cases[i].name << ": too few positions decide anything";
  }
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
      const auto own = ours(path, tokens, 128, {{adapter, static_cast<float>(scale)}});
      ASSERT_EQ(own.size(), theirs[0].size());
      const bool floats = std::string_view(base).find("f32") != std::string_view::npos;
      const Comparison c = compare(theirs[0], own, own.size() / kPositions, floats ? 2e-3 : 0.2);
      fmt::print("{} with a LoRA of scale {}: mean KL {:8.2e}  largest logit difference {:8.2e}\n", base,
                 scale, c.mean_kl, c.worst_logit);
      EXPECT_LE(c.mean_kl, floats ? 1e-6 : 1e-3);
      EXPECT_EQ(c.decided_equal, c.decided);
    }
}

std::vector<std::string_view> architecture_names() {
  std::vector<std::string_view> names;
  for (const model::RandomArchitecture& row : model::random_architectures()) names.push_back(row.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Architectures, LlamaCpp, ::testing::ValuesIn(architecture_names()),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace butterfly::runtime
