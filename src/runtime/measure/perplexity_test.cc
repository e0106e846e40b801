#include "runtime/measure/perplexity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

using testing::RandomModel;
using testing::some_tokens;

constexpr size_t kVocab = 320;

// The same by the definition: one run over the chunk, libm's functions.
double plain_nll(RandomModel& model, std::vector<int32_t> chunk, size_t first, size_t* count) {
  CachedLayers layers(*model.loaded().model, model.loaded().pool,
                      {.positions = 64, .sequences = 1, .kv_type = DType::kF32, .rows_max = 512});
  std::vector<BatchRow> rows;
  for (size_t i = 0; i < chunk.size(); ++i) rows.push_back({chunk[i], 0, static_cast<uint32_t>(i), true});
  const auto logits = layers.run(rows);
  double nll = 0;
  for (size_t i = first; i + 1 < chunk.size(); ++i, ++*count) {
    double sum = 0;
    for (size_t v = 0; v < kVocab; ++v) sum += std::exp(double(logits[i * kVocab + v]));
    nll -= std::log(std::exp(double(logits[i * kVocab + static_cast<size_t>(chunk[i + 1])])) / sum);
  }
  return nll;
}

class PerplexityTest : public ::testing::Test {
 protected:
  CachedLayers layers(size_t rows_max = 512) {
    return CachedLayers(*model_.loaded().model, model_.loaded().pool,
                        {.positions = 64, .sequences = 1, .kv_type = DType::kF32, .rows_max = rows_max});
  }
  static std::vector<int32_t> part(const std::vector<int32_t>& tokens, size_t begin, size_t size) {
    return {tokens.begin() + static_cast<ptrdiff_t>(begin),
            tokens.begin() + static_cast<ptrdiff_t>(begin + size)};
  }
  RandomModel model_{DType::kF32};
  std::vector<int32_t> tokens_ = some_tokens(100, kVocab);
};

TEST_F(PerplexityTest, ScoresTheSecondHalfOfEachChunk) {
  CachedLayers layers = this->layers();
  size_t count = 0;
  double nll = 0;
  for (size_t chunk = 0; chunk < 3; ++chunk)
    nll += plain_nll(model_, part(tokens_, chunk * 32, 32), 16, &count);
  const Perplexity found = measure_perplexity(layers, tokens_, std::nullopt, {.context = 32});
  EXPECT_EQ(found.chunks, 3u);
  EXPECT_EQ(found.tokens, 45u);
  EXPECT_EQ(found.tokens, count);
  EXPECT_NEAR(found.mean_nll, nll / 45, 1e-9);
  EXPECT_NEAR(found.value, std::exp(nll / 45), 1e-6);
  EXPECT_GT(found.uncertainty, 0);
}

TEST_F(PerplexityTest, BosStandsAtTheStartOfEachChunk) {
  CachedLayers layers = this->layers();
  size_t count = 0;
  double nll = 0;
  for (size_t chunk = 0; chunk < 2; ++chunk) {
    auto with_bos = part(tokens_, chunk * 48, 48);
    with_bos[0] = 1;
    nll += plain_nll(model_, with_bos, 24, &count);
  }
  EXPECT_NEAR(measure_perplexity(layers, tokens_, 1, {.context = 48}).mean_nll, nll / double(count), 1e-9);
}

TEST_F(PerplexityTest, AStrideScoresItsTokensOnce) {
  CachedLayers layers = this->layers();
  size_t count = 0;
  double nll = 0;
  for (size_t begin = 0; begin + 32 <= 100; begin += 10)
    nll += plain_nll(model_, part(tokens_, begin, 32), 21, &count);
  const Perplexity found = measure_perplexity(layers, tokens_, std::nullopt, {.context = 32, .stride = 10});
  EXPECT_EQ(found.chunks, 7u);
  EXPECT_EQ(found.tokens, 70u);
  EXPECT_NEAR(found.mean_nll, nll / double(count), 1e-9);
}

TEST_F(PerplexityTest, BatchesDoNotChangeABit) {
  CachedLayers whole = layers(), small = layers(5);
  const double a = measure_perplexity(whole, tokens_, 1, {.context = 32}).mean_nll;
  EXPECT_EQ(measure_perplexity(small, tokens_, 1, {.context = 32}).mean_nll, a);
}

TEST_F(PerplexityTest, StopsWhenAskedAndBoundsChunks) {
  CachedLayers layers = this->layers();
  size_t calls = 0;
  const Perplexity first =
      measure_perplexity(layers, tokens_, 1, {.context = 32}, [&](const Perplexity&, size_t chunks) {
        EXPECT_EQ(chunks, 3u);
        return ++calls < 2;
      });
  EXPECT_EQ(first.chunks, 2u);
  EXPECT_EQ(measure_perplexity(layers, tokens_, 1, {.context = 32, .chunks_max = 2}).mean_nll,
            first.mean_nll);
}

TEST_F(PerplexityTest, RefusesWhatDoesNotFit) {
  CachedLayers layers = this->layers();
  const auto error = [&](const PerplexityOptions& options) -> std::string {
    try {
      measure_perplexity(layers, tokens_, 1, options);
      return "no Error";
    } catch (const Error& e) {
      return e.what();
    }
  };
  EXPECT_THAT(error({.context = 65}), ::testing::HasSubstr("chunks of 65 tokens, the cache holds 64"));
  EXPECT_THAT(error({.context = 32, .stride = 32}), ::testing::HasSubstr("a stride of 32 tokens"));
  tokens_.resize(20);
  EXPECT_THAT(error({.context = 32}), ::testing::HasSubstr("the text has 20 tokens, one chunk needs 32"));
}

}  // namespace
}  // namespace butterfly::runtime
