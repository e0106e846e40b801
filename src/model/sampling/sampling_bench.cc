// Cost of choosing one token from 150,000 logits.
#include <benchmark/benchmark.h>

#include "base/rng.h"
#include "model/sampling/sampler.h"
#include "model/sampling/token_constraint.h"

namespace butterfly::model {
namespace {

std::vector<float> make_logits(size_t count) {
  std::vector<float> logits(count);
  for (size_t i = 0; i < count; ++i) logits[i] = random_normal(1, 2, i) * 3;
  return logits;
}

// As models have them: a few hundred tokens are possible, the others far below.
std::vector<float> make_peaked(size_t count) {
  std::vector<float> logits = make_logits(count);
  for (size_t i = 0; i < count; ++i) logits[i] = logits[i] * 0.5f + (i % 499 == 7 ? 10 : 0);
  return logits;
}

void run(benchmark::State& state, const SamplerSettings& settings, bool peaked = false,
         std::span<const uint64_t> allowed = {}) {
  const auto count = static_cast<size_t>(state.range(0));
  const auto logits = peaked ? make_peaked(count) : make_logits(count);
  std::vector<int32_t> history(512);
  for (size_t i = 0; i < history.size(); ++i) history[i] = static_cast<int32_t>(i * 7 % logits.size());
  Sampler sampler(settings);
  uint64_t position = 0;
  for (auto _ : state) benchmark::DoNotOptimize(sampler.sample(logits, history, position++, allowed));
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

void top_p_alone_peaked(benchmark::State& state) {
  SamplerSettings settings;
  settings.top_k = 0;
  settings.min_p = 0;
  run(state, settings, true);
}
// With a mask that allows every `step`-th token.
void masked(benchmark::State& state) {
  std::vector<uint64_t> allowed(mask_words(static_cast<size_t>(state.range(0))));
  const auto step = static_cast<size_t>(state.range(1));
  for (size_t i = 0; i < static_cast<size_t>(state.range(0)); i += step)
    allowed[i / 64] |= uint64_t{1} << i % 64;
  run(state, {}, false, allowed);
}

BENCHMARK(greedy)->Arg(32000)->Arg(150000)->Unit(benchmark::kMicrosecond);
BENCHMARK(defaults)->Arg(32000)->Arg(150000)->Unit(benchmark::kMicrosecond);
BENCHMARK(penalties)->Arg(150000)->Unit(benchmark::kMicrosecond);
BENCHMARK(no_top_k)->Arg(150000)->Unit(benchmark::kMicrosecond);
BENCHMARK(top_p_alone)->Arg(150000)->Unit(benchmark::kMicrosecond);
BENCHMARK(top_p_alone_peaked)->Arg(150000)->Unit(benchmark::kMicrosecond);
BENCHMARK(nothing_cut)->Arg(150000)->Unit(benchmark::kMicrosecond);
BENCHMARK(masked)->Args({150000, 2})->Args({150000, 5000})->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace butterfly::model
