// The promise: tokens and logits depend on model, prompt, settings and seed alone. Bits are compared.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/testing/test_name.h"
#include "kernels/simd/target.h"
#include "runtime/testing/models.h"
#include "runtime/testing/plain_generate.h"

namespace butterfly::runtime {
namespace {

using testing::Loaded;
using testing::logit_bits;
using testing::RandomModel;
using testing::some_tokens;

class OneResult : public ::testing::TestWithParam<DType> {};

TEST_P(OneResult, OneTwoAndThreeThreadsAgree) {
  const auto tokens = some_tokens(80, 320);
  RandomModel one(GetParam(), 1), two(GetParam(), 2), three(GetParam(), 3);
  const auto want = logit_bits(one.loaded(), tokens, {80});
  EXPECT_EQ(logit_bits(two.loaded(), tokens, {80}), want);
  EXPECT_EQ(logit_bits(three.loaded(), tokens, {80}), want);
}

TEST_P(OneResult, PrefillOf300TokensEqualsOneByOne) {
  const auto tokens = some_tokens(300, 320);
  RandomModel model(GetParam());
  for (DType kv_type : {DType::kF16, DType::kF32, DType::kQ8_0}) {
    const auto want = logit_bits(model.loaded(), tokens, std::vector<size_t>(300, 1), kv_type);
    EXPECT_EQ(logit_bits(model.loaded(), tokens, {300}, kv_type), want) << dtype_name(kv_type);
    EXPECT_EQ(logit_bits(model.loaded(), tokens, {1, 63, 7, 129, 100}, kv_type), want) << dtype_name(kv_type);
  }
}

TEST_P(OneResult, EveryTargetAgrees) {
  const auto tokens = some_tokens(40, 320);
  RandomModel model(GetParam());
  std::vector<uint32_t> want;
  kernels::for_each_target([&](const std::string& target) {
    const auto bits = logit_bits(model.loaded(), tokens, {33, 1, 6});
    if (want.empty()) want = bits;
    EXPECT_EQ(bits, want) << target;
  });
}

TEST_P(OneResult, ASequenceAloneEqualsTheSameInABatchOfMany) {
  const auto tokens = some_tokens(64 * 8, 320);
  RandomModel model(GetParam());
  const size_t vocab = model.loaded().model->config.vocab;
  for (size_t batch : {2, 7, 64}) {
    // `batch` sequences of eight tokens each, one token of each per run.
    CachedLayers together(
        *model.loaded().model, model.loaded().pool,
        {.positions = batch * 32, .sequences = batch, .kv_type = DType::kF16, .rows_max = 64});
    std::vector<std::vector<uint32_t>> bits(batch);
    for (uint32_t position = 0; position < 8; ++position) {
      std::vector<BatchRow> rows;
      for (uint32_t s = 0; s < batch; ++s) rows.push_back({tokens[s * 8 + position], s, position, true});
      const auto logits = together.run(rows);
      for (size_t i = 0; i < logits.size(); ++i)
        bits[i / vocab].push_back(std::bit_cast<uint32_t>(logits[i]));
    }
    for (size_t s = 0; s < batch; s += 5) {
      const std::vector<int32_t> own(tokens.begin() + static_cast<ptrdiff_t>(s * 8),
                                     tokens.begin() + static_cast<ptrdiff_t>(s * 8 + 8));
      EXPECT_EQ(logit_bits(model.loaded(), own, std::vector<size_t>(8, 1)), bits[s])
          << "batch " << batch << " sequence " << s;
    }
  }
}

TEST_P(OneResult, SampledTextDependsOnTheSeedAlone) {
  RandomModel one(GetParam(), 1), three(GetParam(), 3);
  const auto text = [](RandomModel& model, uint64_t seed, size_t chunk) {
    CachedLayers layers(*model.loaded().model, model.loaded().pool, {});
    RequestOptions options;
    options.sampling.temperature = 1.0f;
    options.sampling.seed = seed;
    options.tokens_max = 30;
    options.ignore_eos = true;
    return testing::plain_generate(layers, some_tokens(50, 320), options, chunk).tokens;
  };
  EXPECT_EQ(text(one, 1, 512), text(three, 1, 7));
  EXPECT_NE(text(one, 1, 512), text(one, 2, 512));
}

// Every architecture: threads, pieces of a prompt, and the company of other sequences change no bit.
class OneResultArchitecture : public ::testing::TestWithParam<std::string_view> {};

TEST_P(OneResultArchitecture, ThreadsPiecesAndCompanyChangeNothing) {
  const auto tokens = some_tokens(70, 320);
  for (DType type : {DType::kQ8_0, DType::kQ4_K}) {
    RandomModel one(type, 1, 7, GetParam());
    Loaded two(one.path(), 2), three(one.path(), 3);
    const auto want = logit_bits(one.loaded(), tokens, std::vector<size_t>(70, 1));
    for (uint32_t bits : want) ASSERT_TRUE(std::isfinite(std::bit_cast<float>(bits)));
    EXPECT_EQ(logit_bits(one.loaded(), tokens, {70}), want) << dtype_name(type);
    EXPECT_EQ(logit_bits(three, tokens, {70}), want) << dtype_name(type);
    EXPECT_EQ(logit_bits(two, tokens, {1, 2, 33, 7, 27}), want) << dtype_name(type);

    // Three sequences in step: the first has the tokens above, the others something else.
    CachedLayers together(*two.model, two.pool,
                          {.positions = 3 * 96, .sequences = 3, .kv_type = DType::kF16, .rows_max = 64});
    const size_t vocab = two.model->config.vocab;
    std::vector<uint32_t> bits;
    for (uint32_t position = 0; position < 70; ++position) {
      std::vector<BatchRow> rows;
      for (uint32_t s = 0; s < 3; ++s)
        rows.push_back({tokens[(position * (s + 1) + 11 * s) % 70], s, position, true});
      const auto logits = together.run(rows);
      for (size_t i = 0; i < vocab; ++i) bits.push_back(std::bit_cast<uint32_t>(logits[i]));
    }
    EXPECT_EQ(bits, want) << dtype_name(type);
  }
}

std::vector<std::string_view> architecture_names() {
  std::vector<std::string_view> names;
  for (const model::RandomArchitecture& row : model::random_architectures()) names.push_back(row.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Architectures, OneResultArchitecture, ::testing::ValuesIn(architecture_names()),
                         [](const auto& test) { return butterfly::testing::test_name(test.param); });

INSTANTIATE_TEST_SUITE_P(Types, OneResult,
                         ::testing::Values(DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0,
                                           DType::kQ4_1, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K,
                                           DType::kMXFP4),
                         [](const auto& test) { return std::string(dtype_name(test.param)); });

}  // namespace
}  // namespace butterfly::runtime
