// Tokens per second of several streams at once.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/load.h"

namespace butterfly::bench {

StreamFigures figures_of(std::span<const std::shared_ptr<Recorder>> streams, Seconds begin, size_t prompt) {
  Seconds all_began = 0, end = 0, first_end = std::numeric_limits<Seconds>::infinity();
  std::vector<Seconds> first;
  size_t tokens = 0, together = 0;
  for (const auto& stream : streams) {
    first.push_back(stream->arrivals().front().when - begin);
    all_began = std::max(all_began, stream->arrivals().front().when);
    end = std::max(end, stream->finished());
    first_end = std::min(first_end, stream->finished());
  }
  for (const auto& stream : streams)
    for (const auto& arrival : stream->arrivals()) {
      tokens += arrival.tokens;
      if (arrival.when > all_began && arrival.when <= first_end) together += arrival.tokens;
    }
  std::ranges::sort(first);
  const auto read = static_cast<double>(streams.size() * prompt);
  return {.prompt = read / (all_began - begin),
          .decode = first_end > all_began ? static_cast<double>(together) / (first_end - all_began) : 0.0,
          .total = (read + static_cast<double>(tokens)) / (end - begin),
          .first_token = first[first.size() / 2]};
}

void measure_streams(const Setup& setup) {
  fmt::print("{} streams, prompts of {}, {} tokens each, temperature {}\n", setup.streams, setup.prompt,
             setup.generate, setup.temperature);
  fmt::print("{:>5} {:>12} {:>12} {:>12} {:>12} {:>14}\n", "round", "prompt t/s", "decode t/s", "total t/s",
             "TTFT p50 s", "engine us/step");
  runtime::LocalEngineOptions options;
  options.engine.scheduler.running_max = setup.streams;
  options.engine.scheduler.speculate = false;
  options.layers.positions = setup.streams * (setup.prompt + setup.generate + 64);
  for (size_t round = 0; round <= setup.rounds; ++round) {  // the first is not counted
    const auto engine = runtime::make_local_engine(setup.model, setup.compute, options);
    const Seconds begin = seconds_now();
    std::vector<std::shared_ptr<Recorder>> streams;
    for (size_t i = 0; i < setup.streams; ++i) {
      auto request = plain_request(random_prompt(setup.prompt, setup.model.config.vocab, 100 * round + i),
                                   setup.generate);
      request.sampling.temperature = setup.temperature;
      streams.push_back(start(*engine, std::move(request)));
    }
    for (auto& stream : streams) stream->wait();
    const StreamFigures figures = figures_of(streams, begin, setup.prompt);
    const runtime::EngineStats stats = engine->stats();
    if (round == 0) continue;
    fmt::print(
        "{:>5} {:>12.2f} {:>12.2f} {:>12.2f} {:>12.2f} {:>14.0f}\n", round, figures.prompt, figures.decode,
        figures.total, figures.first_token,
        1e6 * std::chrono::duration<double>(stats.engine_time).count() / static_cast<double>(stats.steps));
    std::fflush(stdout);
  }
}

}  // namespace butterfly::bench
