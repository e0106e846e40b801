// How long streams wait between tokens while a long prompt is read in.
#include <fmt/format.h>

#include <algorithm>

#include "engine/load.h"

namespace butterfly::bench {
namespace {

// Milliseconds between arrivals with both ends in [from, to].
std::vector<double> gaps(const std::vector<std::shared_ptr<Recorder>>& streams, Seconds from, Seconds to) {
  std::vector<double> all;
  for (const auto& stream : streams) {
    const auto arrivals = stream->arrivals();
    for (size_t i = 1; i < arrivals.size(); ++i)
      if (arrivals[i - 1].when >= from && arrivals[i].when <= to)
        all.push_back(1e3 * (arrivals[i].when - arrivals[i - 1].when));
  }
  std::ranges::sort(all);
  return all;
}

double quantile(const std::vector<double>& sorted, double q) {
  return sorted.empty() ? 0 : sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1))];
}

}  // namespace

void measure_gap(const Setup& setup) {
  constexpr size_t kAlone = 30;  // tokens before the long prompt comes
  runtime::LocalEngineOptions options;
  options.engine.scheduler.running_max = setup.streams + 1;
  options.engine.scheduler.speculate = false;
  options.engine.scheduler.context = setup.prompt + 8;
  options.layers.positions = (setup.streams + 2) * (setup.prompt + 64);
  fmt::print("{} streams, then a prompt of {}\n", setup.streams, setup.prompt);
  fmt::print("{:>16} {:>8} {:>10} {:>10} {:>10} {:>22} {:>16}\n", "", "gaps", "median ms", "p99 ms", "max ms",
             "p99 / median alone", "p99 / median");
  const auto engine = runtime::make_local_engine(setup.model, setup.compute, options);
  const size_t vocab = setup.model.config.vocab;
  std::vector<std::shared_ptr<Recorder>> streams;
  for (size_t i = 0; i < setup.streams; ++i)
    streams.push_back(start(*engine, plain_request(random_prompt(16, vocab, i), setup.prompt - 16)));
  for (auto& stream : streams) stream->wait_for_tokens(2);
  const Seconds begin = seconds_now();
  for (auto& stream : streams) stream->wait_for_tokens(kAlone);
  const Seconds submitted = seconds_now();
  auto reader = start(*engine, plain_request(random_prompt(setup.prompt, vocab, 999), 1));
  reader->wait();
  const Seconds read = reader->finished();
  const auto alone = gaps(streams, begin, submitted), during = gaps(streams, submitted, read);
  const double median = quantile(alone, 0.5);
  const auto line = [&](const char* what, const std::vector<double>& g) {
    fmt::print("{:>16} {:>8} {:>10.1f} {:>10.1f} {:>10.1f} {:>22.2f} {:>16.2f}\n", what, g.size(),
               quantile(g, 0.5), quantile(g, 0.99), g.back(), quantile(g, 0.99) / median,
               quantile(g, 0.99) / quantile(g, 0.5));
  };
  line("alone", alone);
  line("while it is read", during);
  fmt::print("the prompt took {:.1f} s: {:.1f} tokens/s\n", read - submitted,
             static_cast<double>(setup.prompt) / (read - submitted));
}

}  // namespace butterfly::bench
