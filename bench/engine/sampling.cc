// What choosing tokens takes of a step: between the end of one and the beginning of the next nothing
// computes.
#include <fmt/format.h>

#include <chrono>

#include "base/rng.h"
#include "engine/load.h"
#include "model/sampling/sampler.h"

namespace butterfly::bench {
namespace {

struct Way {
  const char* name;
  void (*set)(model::SamplerSettings&);
};

// Alone: everything else off.
void only(model::SamplerSettings& s, float temperature) {
  s.temperature = temperature;
  s.top_k = 0;
  s.top_p = 1;
  s.min_p = 0;
}

constexpr Way kWays[] = {
    {"greedy", [](model::SamplerSettings& s) { s.temperature = 0; }},
    {"temperature alone", [](model::SamplerSettings& s) { only(s, 0.8f); }},
    {"top-k 40 alone",
     [](model::SamplerSettings& s) {
       only(s, 0.8f);
       s.top_k = 40;
     }},
    {"top-p 0.95 alone",
     [](model::SamplerSettings& s) {
       only(s, 0.8f);
       s.top_p = 0.95f;
     }},
    {"min-p 0.05 alone",
     [](model::SamplerSettings& s) {
       only(s, 0.8f);
       s.min_p = 0.05f;
     }},
    {"defaults", [](model::SamplerSettings&) {}},
    {"defaults and penalties",
     [](model::SamplerSettings& s) {
       s.repeat_penalty = 1.1f;
       s.frequency_penalty = 0.1f;
       s.presence_penalty = 0.1f;
     }},
};

// A row of logits as trained models have them: a few hundred tokens are possible, the others far below.
// (Those of a model with random weights, which the engine runs here, are nearly equal: the worst case.)
std::vector<float> peaked_row(size_t vocab) {
  std::vector<float> row(vocab);
  for (size_t i = 0; i < vocab; ++i) row[i] = 1.5f * random_normal(1, 2, i) + (i % 499 == 7 ? 10 : 0);
  return row;
}

// Seconds to choose a token from such a row, nothing else.
double peaked_seconds(const model::SamplerSettings& settings, std::span<const float> row) {
  constexpr uint64_t kTokens = 100;
  const std::vector<int32_t> history(64, 5);
  model::Sampler sampler(settings);
  sampler.sample(row, history, 0);
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t i = 1; i <= kTokens; ++i) sampler.sample(row, history, i);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / kTokens;
}

}  // namespace

void measure_sampling(const Setup& setup) {
  fmt::print("{} streams, prompts of {}, {} tokens each, vocabulary of {}\n", setup.streams, setup.prompt,
             setup.generate, setup.model.config.vocab);
  fmt::print("{:>24} {:>12} {:>16} {:>10} {:>16}\n", "", "step ms", "between us", "share %", "peaked row us");
  const std::vector<float> peaked = peaked_row(setup.model.config.vocab);
  runtime::LocalEngineOptions options;
  options.engine.scheduler.running_max = setup.streams;
  options.engine.scheduler.speculate = false;
  options.layers.positions = setup.streams * (setup.prompt + setup.generate + 64);
  for (const Way& way : kWays) {
    // Everything between steps: planning and sending too, which a greedy choice shows alone.
    double step = 0, between = 0;
    for (size_t round = 0; round <= setup.rounds; ++round) {  // the first is not counted
      const auto engine = runtime::make_local_engine(setup.model, setup.compute, options);
      std::vector<std::shared_ptr<Recorder>> streams;
      for (size_t i = 0; i < setup.streams; ++i) {
        auto request = plain_request(random_prompt(setup.prompt, setup.model.config.vocab, 100 * round + i),
                                     setup.generate);
        request.sampling = {};
        way.set(request.sampling);
        streams.push_back(start(*engine, std::move(request)));
      }
      for (auto& stream : streams) stream->wait();
      const runtime::EngineStats stats = engine->stats();
      if (round == 0) continue;
      step += std::chrono::duration<double>(stats.step_time).count() / static_cast<double>(stats.steps);
      between += std::chrono::duration<double>(stats.engine_time).count() / static_cast<double>(stats.steps);
    }
    const auto rounds = static_cast<double>(setup.rounds);
    model::SamplerSettings settings;
    way.set(settings);
    fmt::print("{:>24} {:>12.2f} {:>16.0f} {:>10.2f} {:>16.0f}\n", way.name, 1e3 * step / rounds,
               1e6 * between / rounds, 100 * between / (step + between),
               1e6 * peaked_seconds(settings, peaked));
    std::fflush(stdout);
  }
}

}  // namespace butterfly::bench
