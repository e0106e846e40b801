#include "model/synthetic/random_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "kernels/quant/quant.h"
#include "model/formats/model_file.h"
#include "model/tokenizer/tokenizer.h"

namespace butterfly::model {
namespace {

class RandomModel : public ::testing::Test {
 protected:
  void SetUp() override {
    const ::testing::TestInfo& info = *::testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(::testing::TempDir()) / fmt::format("butterfly_{}.gguf", info.name());
    std::filesystem::remove(path_);
    options_.vocabulary_size = 600;
    options_.embedding_length = 64;
    options_.feed_forward_length = 96;
    options_.block_count = 2;
    options_.head_count = 4;
    options_.head_count_kv = 2;
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<float> values(const char* name) const {
    const Tensor tensor = open_model(path_).tensor(name);
    std::vector<float> floats(static_cast<size_t>(tensor.count()));
    kernels::to_float(tensor.dtype(), tensor.raw(), floats.data(), floats.size());
    return floats;
  }

  std::filesystem::path path_;
  RandomModelOptions options_;
};

TEST_F(RandomModel, OpensWithTheAskedShape) {
  write_random_model(path_, options_);
  const ModelFile file = open_model(path_);
  EXPECT_EQ(file.architecture(), "llama");
  EXPECT_EQ(file.metadata().u32("llama.block_count"), 2u);
  EXPECT_EQ(file.tensor("blk.1.attn_k.weight").shape(), (Shape{32, 64}));
  EXPECT_EQ(file.tensor("blk.1.ffn_down.weight").shape(), (Shape{64, 96}));
  EXPECT_EQ(file.tensor("blk.0.attn_norm.weight").dtype(), DType::kF32);
  EXPECT_EQ(file.tensor("output.weight").dtype(), DType::kQ8_0);
  EXPECT_EQ(file.tensors().size(), 2u * 9 + 3);
  EXPECT_EQ(file.parameter_count(),
            600u * 64 * 2 + 2 * (64 * 64 * 2 + 32 * 64 * 2 + 96 * 64 * 3 + 2 * 64) + 64);
}

TEST_F(RandomModel, SameOptionsGiveTheSameBytesAndAnotherSeedOthers) {
  write_random_model(path_, options_);
  const std::string first = bytes();
  write_random_model(path_, options_);
  EXPECT_TRUE(bytes() == first);
  options_.seed = 2;
  write_random_model(path_, options_);
  EXPECT_FALSE(bytes() == first);
}

TEST_F(RandomModel, WeightsHaveThePlannedMeanAndDeviation) {
  options_.matrix_type = DType::kF32;
  write_random_model(path_, options_);
  double sum = 0;
  double squares = 0;
  const std::vector<float> weights = values("blk.0.ffn_up.weight");
  for (const float w : weights) {
    sum += w;
    squares += double{w} * w;
  }
  const auto n =
      static_cast<double>(weights.size());  // 6144 draws: the mean is within 5 deviations of the mean
  EXPECT_NEAR(sum / n, 0, 5 * 0.125 / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(squares / n), 0.125, 0.01);
}

TEST_F(RandomModel, AWeightDoesNotDependOnTheOtherLayers) {
  write_random_model(path_, options_);
  const std::vector<float> two_layers = values("blk.1.attn_q.weight");
  options_.block_count = 3;
  write_random_model(path_, options_);
  EXPECT_EQ(values("blk.1.attn_q.weight"), two_layers);
  EXPECT_NE(values("blk.2.attn_q.weight"), two_layers);
}

TEST_F(RandomModel, EveryTypeThatCanBeWrittenWorks) {
  options_.embedding_length = 256;
  options_.feed_forward_length = 256;
  for (const DTypeInfo& type : dtype_table()) {
    if (!kernels::can_quantize(type.dtype)) continue;
    options_.matrix_type = options_.vocabulary_type = type.dtype;
    write_random_model(path_, options_);
    EXPECT_EQ(open_model(path_).tensor("output.weight").dtype(), type.dtype) << type.name;
  }
}

TEST_F(RandomModel, TiedModelsHaveNoOutputMatrix) {
  options_.tied = true;
  write_random_model(path_, options_);
  EXPECT_FALSE(open_model(path_).has("output.weight"));
}

TEST_F(RandomModel, LinearAttentionMayHaveHeadsOfItsOwn) {
  options_.architecture = "qwen35";
  options_.block_count = 4;
  options_.state_length = 32;
  options_.state_head_count = 6;
  options_.state_head_count_kv = 3;
  write_random_model(path_, options_);
  const ModelFile file = open_model(path_);
  EXPECT_EQ(file.metadata().u32("qwen35.ssm.inner_size"), 192u);
  EXPECT_EQ(file.metadata().u32("qwen35.ssm.group_count"), 3u);
  EXPECT_EQ(file.tensor("blk.0.ssm_a").shape(), (Shape{6}));
  EXPECT_EQ(file.tensor("blk.0.attn_qkv.weight").shape(), (Shape{2 * 96 + 192, 64}));
  EXPECT_EQ(file.tensor("blk.3.attn_k.weight").shape(), (Shape{32, 64}));
}

TEST_F(RandomModel, Gemma4HasWindowsByPeriodAndSharesTheKeysAskedFor) {
  options_.architecture = "gemma4";
  options_.block_count = 7;
  options_.window_period = 3;
  options_.shared_kv_layers = 4;
  options_.layer_input_length = 64;
  write_random_model(path_, options_);
  const ModelFile file = open_model(path_);
  EXPECT_EQ(file.tensor("blk.1.attn_k_norm.weight").shape(), (Shape{16}));
  EXPECT_EQ(file.tensor("blk.2.attn_k_norm.weight").shape(), (Shape{32}));
  EXPECT_FALSE(file.has("blk.3.attn_k.weight"));
  EXPECT_EQ(file.tensor("blk.0.inp_gate.weight").shape(), (Shape{64, 64}));
  EXPECT_EQ(file.tensor("per_layer_token_embd.weight").shape(), (Shape{600, 7 * 64}));
}

TEST_F(RandomModel, ExpertsMayHaveATypeOfTheirOwn) {
  options_.architecture = "gpt-oss";
  options_.expert_type = DType::kMXFP4;
  write_random_model(path_, options_);
  const ModelFile file = open_model(path_);
  EXPECT_EQ(file.tensor("blk.0.ffn_down_exps.weight").dtype(), DType::kMXFP4);
  EXPECT_EQ(file.tensor("blk.0.attn_q.weight").dtype(), DType::kQ8_0);
}

TEST_F(RandomModel, RefusesWhatDoesNotFitAndLeavesNoFile) {
  const auto refused = [&](auto change) {
    RandomModelOptions changed = options_;
    change(changed);
    try {
      write_random_model(path_, changed);
    } catch (const Error& error) {
      EXPECT_FALSE(std::filesystem::exists(path_));
      return std::string(error.what());
    }
    return std::string();
  };
  using O = RandomModelOptions;
  EXPECT_THAT(refused([](O& o) { o.head_count = 5; }), ::testing::HasSubstr("64 is not a multiple of 5"));
  EXPECT_THAT(refused([](O& o) { o.head_count_kv = 3; }),
              ::testing::HasSubstr("4 heads is not a multiple of 3"));
  EXPECT_THAT(refused([](O& o) { o.head_count = 0; }), ::testing::HasSubstr("head count is 0"));
  EXPECT_THAT(refused([](O& o) { o.matrix_type = DType::kQ4_K; }), ::testing::HasSubstr("block of 256"));
  EXPECT_THAT(refused([](O& o) { o.matrix_type = DType::kIQ4_NL; }), ::testing::HasSubstr("IQ4_NL"));
  EXPECT_THAT(refused([](O& o) { o.matrix_type = DType::kI32; }), ::testing::HasSubstr("I32"));
  EXPECT_THAT(refused([](O& o) { o.architecture = "mamba"; }), ::testing::HasSubstr("expected one of llama"));
  EXPECT_THAT(refused([](O& o) { o.vocabulary_size = 100; }), ::testing::HasSubstr("vocabulary of 100"));
  const auto refused_as = [&](const char* name, auto change) {
    return refused([&](O& o) {
      o.architecture = name;
      o.block_count = 7;
      change(o);
    });
  };
  EXPECT_THAT(refused_as("qwen35", [](O& o) { o.state_length = 24; }),
              ::testing::HasSubstr("24 is not a multiple of 16"));
  EXPECT_THAT(refused_as("qwen35", [](O& o) { o.state_head_count_kv = 3; }),
              ::testing::HasSubstr("4 state heads is not a multiple of 3"));
  EXPECT_THAT(refused_as("gemma4", [](O& o) { o.window_period = 1; }), ::testing::HasSubstr("period 1"));
  EXPECT_THAT(refused_as("gemma4", [](O& o) { o.shared_kv_layers = 2; }),
              ::testing::HasSubstr("leave a multiple of 2"));
}

TEST_F(RandomModel, ProgressEndsAtTheTotalAndMayStopTheWork) {
  uint64_t last = 0;
  uint64_t total = 0;
  write_random_model(path_, options_, [&](uint64_t done, uint64_t all) {
    EXPECT_GT(done, last);
    last = done;
    total = all;
  });
  EXPECT_EQ(last, total);
  std::filesystem::remove(path_);
  EXPECT_THROW(
      write_random_model(path_, options_, [](uint64_t, uint64_t) { fail(Errc::kCancelled, "stop"); }), Error);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

class SyntheticVocabulary : public RandomModel {};

TEST_F(SyntheticVocabulary, WritesAnyTextAndReadsItBack) {
  write_random_model(path_, options_);
  const auto tokenizer = make_tokenizer(open_model(path_).metadata());
  EXPECT_EQ(tokenizer->vocab_size(), 600u);
  for (const char* text : {"Once upon a time", "banana", "tabs\tand\nlines", "schön – 日本語", ""}) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
}

TEST_F(SyntheticVocabulary, MergesSyllablesIntoLongerTokens) {
  options_.vocabulary_size = 32000;
  options_.embedding_length = 32;
  options_.head_count = options_.head_count_kv = 1;
  write_random_model(path_, options_);
  const auto tokenizer = make_tokenizer(open_model(path_).metadata());
  const std::vector<int32_t> ids = tokenizer->encode("tata nono", {.add_bos = false, .add_eos = {}});
  ASSERT_EQ(ids.size(), 2u);
  EXPECT_EQ(tokenizer->token_text(ids[0]), "▁tata");
  EXPECT_EQ(tokenizer->token_text(ids[1]), "▁nono");
}

}  // namespace
}  // namespace butterfly::model
