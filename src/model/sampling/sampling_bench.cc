// Cost of choosing one token from 150,000 logits.
#include <benchmark/benchmark.h>

#include "base/rng.h"
#include "model/sampling/sampler.h"
#include "model/sampling/token_constraint.h"

namespace butterfly::model {
namespace {

constexpr size_t kVocabulary = 150'000;

enum Row {
  kFlat,    // nearly equal, as of a model with random weights: the worst case
  kWide,    // a wide normal distribution
  kPeaked,  // as trained models have them: a few hundred tokens are possible, the others far below
};

std::vector<float> make_logits(Row row) {
  std::vector<float> logits(kVocabulary);
  for (size_t i = 0; i < kVocabulary; ++i) {
    const float x = random_normal(1, 2, i);
    logits[i] = row == kFlat ? 0.3f * x : row == kWide ? 3 * x : 1.5f * x + (i % 499 == 7 ? 10 : 0);
  }
  return logits;
}

// Everything off but a temperature.
SamplerSettings plain(float temperature) {
  SamplerSettings settings;
  settings.temperature = temperature;
  settings.top_k = 0;
  settings.top_p = 1;
  settings.min_p = 0;
  return settings;
}

void run(benchmark::State& state, const SamplerSettings& settings, std::span<const uint64_t> allowed = {}) {
  const auto logits = make_logits(static_cast<Row>(state.range(0)));
  std::vector<int32_t> history(512);
  for (size_t i = 0; i < history.size(); ++i) history[i] = static_cast<int32_t>(i * 7 % logits.size());
  Sampler sampler(settings);
  uint64_t position = 0;
  for (auto _ : state) benchmark::DoNotOptimize(sampler.sample(logits, history, position++, allowed));
}

void greedy(benchmark::State& state) { run(state, plain(0)); }
void defaults(benchmark::State& state) { run(state, {}); }
void penalties(benchmark::State& state) {
  SamplerSettings settings;
  settings.repeat_penalty = 1.1f;
  run(state, settings);
}
void no_top_k(benchmark::State& state) {
  SamplerSettings settings;
  settings.top_k = 0;
  run(state, settings);
}
void temperature_alone(benchmark::State& state) { run(state, plain(0.8f)); }
void top_p_alone(benchmark::State& state) {
  SamplerSettings settings = plain(0.8f);
  settings.top_p = 0.95f;
  run(state, settings);
}
void top_p_temperature_1(benchmark::State& state) {
  SamplerSettings settings = plain(1);
  settings.top_p = 0.95f;
  run(state, settings);
}
void min_p_alone(benchmark::State& state) {
  SamplerSettings settings = plain(0.8f);
  settings.min_p = 0.05f;
  run(state, settings);
}
// With a mask that allows every `step`-th token.
void masked(benchmark::State& state) {
  std::vector<uint64_t> allowed(mask_words(kVocabulary));
  const auto step = static_cast<size_t>(state.range(1));
  for (size_t i = 0; i < kVocabulary; i += step) allowed[i / 64] |= uint64_t{1} << i % 64;
  run(state, {}, allowed);
}

void rows(benchmark::internal::Benchmark* bench) {
  for (const Row row : {kFlat, kWide, kPeaked}) bench->Arg(row);
  bench->ArgName("row")->Unit(benchmark::kMicrosecond);
}

BENCHMARK(greedy)->Apply(rows);
BENCHMARK(defaults)->Apply(rows);
BENCHMARK(penalties)->Apply(rows);
BENCHMARK(no_top_k)->Apply(rows);
BENCHMARK(temperature_alone)->Apply(rows);
BENCHMARK(top_p_alone)->Apply(rows);
BENCHMARK(top_p_temperature_1)->Apply(rows);
BENCHMARK(min_p_alone)->Apply(rows);
BENCHMARK(masked)
    ->Args({kWide, 2})
    ->Args({kWide, 5000})
    ->ArgNames({"row", "step"})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace butterfly::model
