// Cost of choosing one token from 150,000 logits.
#include <benchmark/benchmark.h>

#include "base/rng.h"
#include "model/sampling/sampler.h"

namespace butterfly::model {
namespace {

std::vector<float> make_logits(size_t count) {
  std::vector<float> logits(count);
  for (size_t i = 0; i < count; ++i) logits[i] = random_normal(1, 2, i) * 3;
  return logits;
}

void run(benchmark::State& state, const SamplerSettings& settings) {
  const auto logits = make_logits(static_cast<size_t>(state.range(0)));
  std::vector<int32_t> history(512);
  for (size_t i = 0; i < history.size(); ++i) history[i] = static_cast<int32_t>(i * 7 % logits.size());
  Sampler sampler(settings);
  uint64_t position = 0;
  for (auto _ : state) benchmark::DoNotOptimize(sampler.sample(logits, history, position++));
}

void greedy(benchmark::State& state) {
  SamplerSettings settings;
  settings.temperature = 0;
  run(state, settings);
}
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
void top_p_alone(benchmark::State& state) {
  SamplerSettings settings;
  settings.top_k = 0;
  settings.min_p = 0;
  run(state, settings);
}
void nothing_cut(benchmark::State& state) {
  SamplerSettings settings;
  settings.top_k = 0;
  settings.min_p = 0;
  settings.top_p = 1;
  run(state, settings);
}

BENCHMARK(greedy)->Arg(32000)->Arg(150000)->Unit(benchmark::kMicrosecond);
BENCHMARK(defaults)->Arg(32000)->Arg(150000)->Unit(benchmark::kMicrosecond);
BENCHMARK(penalties)->Arg(150000)->Unit(benchmark::kMicrosecond);
BENCHMARK(no_top_k)->Arg(150000)->Unit(benchmark::kMicrosecond);
BENCHMARK(top_p_alone)->Arg(150000)->Unit(benchmark::kMicrosecond);
BENCHMARK(nothing_cut)->Arg(150000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace butterfly::model
