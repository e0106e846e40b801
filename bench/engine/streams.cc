// Tokens per second of several streams at once.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/load.h"

namespace butterfly::bench {

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
    // Prompts: until all have their first token. Decode: while all of them run.
    Seconds all_began = 0, end = 0, first_end = std::numeric_limits<Seconds>::infinity();
    std::vector<Seconds> first;
    for (auto& stream : streams) {
      first.push_back(stream->arrivals().front().when - begin);
      all_began = std::max(all_began, stream->arrivals().front().when);
      end = std::max(end, stream->finished());
      first_end = std::min(first_end, stream->finished());
    }
    size_t together = 0;
    for (auto& stream : streams)
      for (const auto& arrival : stream->arrivals())
        if (arrival.when > all_began && arrival.when <= first_end) together += arrival.tokens;
    std::ranges::sort(first);
    const runtime::EngineStats stats = engine->stats();
    if (round == 0) continue;
    const auto tokens = static_cast<double>(setup.streams * (setup.prompt + setup.generate));
    fmt::print(
        "{:>5} {:>12.2f} {:>12.2f} {:>12.2f} {:>12.2f} {:>14.0f}\n", round,
        static_cast<double>(setup.streams * setup.prompt) / (all_began - begin),
        first_end > all_began ? static_cast<double>(together) / (first_end - all_began) : 0.0,
        tokens / (end - begin), first[first.size() / 2],
        1e6 * std::chrono::duration<double>(stats.engine_time).count() / static_cast<double>(stats.steps));
    std::fflush(stdout);
  }
}

}  // namespace butterfly::bench
