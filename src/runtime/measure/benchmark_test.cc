// What a benchmark counts, not how fast it was.
#include "runtime/measure/benchmark.h"

#include <gtest/gtest.h>

#include "runtime/testing/models.h"

namespace butterfly::runtime {
namespace {

TEST(Benchmark, NamesFollowLlamaBench) {
  EXPECT_EQ((BenchmarkTest{.n_prompt = 512}).name(), "pp512");
  EXPECT_EQ((BenchmarkTest{.n_gen = 128}).name(), "tg128");
  EXPECT_EQ((BenchmarkTest{.n_gen = 32, .depth = 2048, .streams = 4}).name(), "tg32 @ d2048 x 4");
}

TEST(Benchmark, RunsEveryRepetitionAndCountsItsWork) {
  testing::RandomModel model(DType::kQ8_0);
  CachedLayers layers(*model.loaded().model, model.loaded().pool,
                      {.positions = 3 * 64, .sequences = 3, .kv_type = DType::kF16, .rows_max = 16});
  const BenchmarkTest prompt{.n_prompt = 40};
  const auto result = run_benchmark(layers, prompt, 3, [] { return true; });
  EXPECT_EQ(result.seconds.size(), 3u);
  EXPECT_GT(result.mean(), 0);
  // 40 rows through all matrices, logits for the last row of each of three runs.
  const auto& c = model.loaded().model->config;
  const uint64_t per_row =
      c.layers * (2 * c.dim * c.dim + 2 * c.dim * c.kv_heads * c.head_dim + 3 * c.dim * c.ff);
  EXPECT_GT(result.cost.flops, 2 * (40 * per_row + 3 * c.dim * c.vocab));
  EXPECT_LT(result.cost.flops, 2.2 * double(40 * per_row + 3 * c.dim * c.vocab));

  const BenchmarkTest batch{.n_gen = 5, .depth = 20, .streams = 3};
  EXPECT_EQ(run_benchmark(layers, batch, 2, [] { return true; }).test.tokens(), 15u);
  int asked = 0;
  EXPECT_EQ(run_benchmark(layers, batch, 5, [&] { return ++asked < 3; }).seconds.size(), 1u);
}

TEST(Benchmark, StatisticsOfTheSample) {
  BenchmarkResult result{.test = {.n_prompt = 10}, .seconds = {1.0, 2.0, 5.0}, .cost = {}};
  EXPECT_DOUBLE_EQ(result.mean(), (10.0 + 5.0 + 2.0) / 3);
  EXPECT_DOUBLE_EQ(result.median(), 5.0);
  EXPECT_NEAR(result.stddev(), 4.041, 1e-3);
}

}  // namespace
}  // namespace butterfly::runtime
