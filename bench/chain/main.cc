// chain_bench: what a hop between two stages costs, and how much faster two of them serve many streams.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/cpu.h"
#include "base/error.h"
#include "chain/loopback_chain.h"
#include "engine/load.h"
#include "kernels/simd/target.h"
#include "runtime/engine/local_chain.h"

namespace butterfly::bench {
namespace {

struct Settings {
  std::string model;
  size_t cut = 0, streams = 8, prompt = 64, generate = 128, rounds = 3, spin_us = 50;
  std::string wire = "f32";
  bool pin = true;
};

double us(Duration duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

runtime::ChainOptions chain_options(const Settings& settings, size_t streams) {
  runtime::ChainOptions options;
  options.cache.positions = streams * (settings.prompt + settings.generate + 64);
  options.cache.sequences = streams;
  options.format = &runtime::find_row_format(settings.wire);
  return options;
}

LoopbackOptions loopback(const Settings& settings, size_t streams) {
  return {.cut = settings.cut,
          .context = settings.prompt + settings.generate + 64,
          .pin = settings.pin,
          .spin = std::chrono::microseconds(settings.spin_us),
          .chain = chain_options(settings, streams)};
}

// The last steps of one stream, looked at one by one. Between is what is left of a step when all that the two
// stages did is taken away: TLS and TCP of the kernel, and two wake-ups.
class StepNotes final : public runtime::EventSink {
 public:
  StepNotes(const runtime::ChainTimes& times, const LoopbackChain& chain) : times_(times), chain_(chain) {}
  void on_tokens(runtime::RequestId, std::vector<runtime::TokenEvent>) override {
    if (steps.empty()) after_prompt = chain_.counters();
    steps.push_back(times_.view().last);
  }
  void on_finish(runtime::RequestId, runtime::FinishEvent) override { done.store(true), done.notify_all(); }
  std::vector<runtime::ChainStep> steps;
  cluster::LinkCounters after_prompt;
  std::atomic<bool> done{false};

 private:
  const runtime::ChainTimes& times_;
  const LoopbackChain& chain_;
};

void measure_hop(const Settings& settings) {
  LoopbackChain chain(settings.model, loopback(settings, 1));
  fmt::print("one stream; first stage: {}; last stage: {}\n",
             to_string(chain.first().range, chain.first().config.layers),
             to_string(chain.last().range, chain.last().config.layers));
  if (settings.pin) pin_to(0);
  const auto times = std::make_shared<runtime::ChainTimes>();
  std::vector<double> hops[2];  // by whether steps are expected
  for (size_t round = 0; round < settings.rounds; ++round) {
    runtime::EngineOptions options;
    options.scheduler.speculate = false;
    const bool expect = round % 2 == 0;
    runtime::Engine engine(chain.start(times, expect), nullptr, options);
    auto notes = std::make_shared<StepNotes>(*times, chain);
    engine
        .submit(plain_request(random_prompt(settings.prompt, chain.last().config.vocab, round),
                              settings.generate),
                notes)
        .or_throw();
    notes->done.wait(false);
    const auto after = chain.counters();
    const auto p50 = [&](auto&& of) {
      std::vector<double> values;
      for (const auto& step : notes->steps)
        if (step.rows == 1) values.push_back(of(step));
      return median(values);
    };
    using Step = runtime::ChainStep;
    const double total = p50([](const Step& s) { return us(s.total); });
    const double compute = p50([](const Step& s) { return us(s.stages[0].compute + s.stages[1].compute); });
    fmt::print("round {}, {}\n", round, expect ? "steps are expected" : "receivers sleep");
    fmt::print("{:>28} {:>10.1f} us\n", "step, p50", total);
    fmt::print("{:>28} {:>10.1f} us\n", "both stages' layers", compute);
    const double hop =
        p50([](const Step& s) { return us(s.total - s.stages[0].compute - s.stages[1].compute); }) / 2;
    hops[expect].push_back(hop);
    fmt::print("{:>28} {:>10.1f} us\n", "rest, for each of two hops", hop);
    fmt::print("{:>28} {:>10.1f} us\n", "serialise and send tokens",
               p50([](const Step& s) { return us(s.stages[1].send); }));
    fmt::print("{:>28} {:>10.1f} us\n", "worker: receive and check",
               p50([](const Step& s) { return us(s.stages[0].receive); }));
    fmt::print("{:>28} {:>10.1f} us\n", "worker: send rows",
               p50([](const Step& s) { return us(s.stages[0].send); }));
    fmt::print("{:>28} {:>10.1f} us\n", "receive rows",
               p50([](const Step& s) { return us(s.stages[1].receive); }));
    fmt::print("{:>28} {:>10.1f} us\n", "wire, queues and wake-ups",
               p50([](const Step& s) { return us(s.between()); }));
    fmt::print("{:>28} {:>10.0f} out, {:.0f} in\n", "bytes per token",
               static_cast<double>(after.bytes_sent - notes->after_prompt.bytes_sent) /
                   static_cast<double>(settings.generate - 1),
               static_cast<double>(after.bytes_received - notes->after_prompt.bytes_received) /
                   static_cast<double>(settings.generate - 1));
    fmt::print("{:>28} {:>10} of {} spins\n", "steps found by spinning", chain.worker_stats().spin_hits,
               chain.worker_stats().spins);
    std::fflush(stdout);
  }
  for (const bool expect : {true, false})
    if (!hops[expect].empty()) {
      const auto [least, most] = std::ranges::minmax(hops[expect]);
      fmt::print("a hop, {}: median {:.0f} us, {:.0f} to {:.0f} in {} rounds\n",
                 expect ? "steps are expected" : "receivers sleep", median(hops[expect]), least, most,
                 hops[expect].size());
    }
}

// Tokens per second while all of `count` streams generate.
double decode_rate(runtime::Engine& engine, const Settings& settings, size_t count, size_t vocab,
                   size_t seed) {
  std::vector<std::shared_ptr<Recorder>> streams;
  for (size_t i = 0; i < count; ++i)
    streams.push_back(start(
        engine, plain_request(random_prompt(settings.prompt, vocab, 100 * seed + i), settings.generate)));
  for (auto& stream : streams) stream->wait();
  Seconds all_began = 0, first_end = 1e300;
  for (auto& stream : streams) {
    all_began = std::max(all_began, stream->arrivals().front().when);
    first_end = std::min(first_end, stream->finished());
  }
  size_t together = 0;
  for (auto& stream : streams)
    for (const auto& arrival : stream->arrivals())
      if (arrival.when > all_began && arrival.when <= first_end) together += arrival.tokens;
  return static_cast<double>(together) / (first_end - all_began);
}

// The whole model with one thread.
struct Whole {
  explicit Whole(const Settings& settings) : compute(1) {
    runtime::LoadOptions load;
    load.with_tokenizer = false;
    load.context = settings.prompt + settings.generate + 64;
    model = runtime::load_model(settings.model, compute.take().pool(), load);
  }
  std::unique_ptr<runtime::LocalChain> chain(const Settings& settings, size_t streams) const {
    return std::make_unique<runtime::LocalChain>(*model, compute, chain_options(settings, streams).cache);
  }
  mutable Compute compute;
  std::unique_ptr<runtime::LoadedModel> model;
};

// Two stages work on half of the streams each, so a step of a stage takes half of T(n / 2), where T(n) is the
// time of a step of n rows on one node: at best they are T(n) / T(n / 2) times as fast. Both are measured in
// the same round.
void measure_streams(const Settings& settings) {
  LoopbackChain chain(settings.model, loopback(settings, settings.streams));
  const Whole whole(settings);
  if (settings.pin) pin_to(0);
  runtime::EngineOptions options;
  options.scheduler.running_max = settings.streams;
  options.scheduler.speculate = false;
  fmt::print("{} streams; first stage: {}; last stage: {}\n", settings.streams,
             to_string(chain.first().range, chain.first().config.layers),
             to_string(chain.last().range, chain.last().config.layers));
  const size_t vocab = whole.model->config.vocab;
  const auto on_one_node = [&](size_t count, size_t round) {
    runtime::Engine engine(whole.chain(settings, count), nullptr, options);
    return decode_rate(engine, settings, count, vocab, round);
  };
  const size_t half = std::max<size_t>(1, settings.streams / 2);
  std::vector<double> ratios, bounds;
  fmt::print("{:>5} {:>14} {:>14} {:>8} {:>10} {:>10} {:>8}\n", "round", "one node t/s", "two nodes t/s",
             "ratio", fmt::format("T({}) ms", half), fmt::format("T({}) ms", settings.streams), "bound");
  for (size_t round = 0; round < settings.rounds; ++round) {
    double two;
    const double one = on_one_node(settings.streams, round), one_half = on_one_node(half, round);
    const double t_all = static_cast<double>(settings.streams) / one,
                 t_half = static_cast<double>(half) / one_half;
    {
      const auto times = std::make_shared<runtime::ChainTimes>();
      runtime::Engine engine(chain.start(times), nullptr, options);
      two = decode_rate(engine, settings, settings.streams, vocab, round);
      const auto view = times->view();
      const auto share = [&](Duration d) { return us(d) / static_cast<double>(view.steps); };
      ratios.push_back(two / one);
      bounds.push_back(t_all / t_half);
      fmt::print("{:>5} {:>14.2f} {:>14.2f} {:>8.2f} {:>10.1f} {:>10.1f} {:>8.2f}   us/step:", round, one,
                 two, ratios.back(), 1e3 * t_half, 1e3 * t_all, bounds.back());
      for (const auto& s : view.stages)
        fmt::print("  compute {:.0f} wait {:.0f} wire {:.0f}", share(s.compute), share(s.wait),
                   share(s.wire()));
      fmt::print("\n");
    }
    std::fflush(stdout);
  }
  fmt::print("median: {:.2f} x, bound {:.2f} x\n", median(ratios), median(bounds));
}

// Seconds to the first token behind a prompt.
double first_token(runtime::Engine& engine, const Settings& settings, size_t vocab, size_t seed) {
  const Seconds began = seconds_now();
  const auto stream = start(engine, plain_request(random_prompt(settings.prompt, vocab, seed), 1));
  stream->wait();
  return stream->arrivals().front().when - began;
}

void measure_prompt(const Settings& settings) {
  LoopbackChain chain(settings.model, loopback(settings, 1));
  const Whole whole(settings);
  if (settings.pin) pin_to(0);
  runtime::EngineOptions options;
  options.scheduler.reuse_prefix = false;
  runtime::Engine one(whole.chain(settings, 1), nullptr, options);
  runtime::Engine two(chain.start(nullptr), nullptr, options);
  fmt::print("prompts of {} tokens\n{:>5} {:>14} {:>14} {:>8}\n", settings.prompt, "round", "one node t/s",
             "two nodes t/s", "ratio");
  for (size_t round = 0; round <= settings.rounds; ++round) {  // the first is not counted
    const double a = first_token(one, settings, chain.last().config.vocab, round);
    const double b = first_token(two, settings, chain.last().config.vocab, round);
    const auto tokens = static_cast<double>(settings.prompt);
    if (round > 0) fmt::print("{:>5} {:>14.1f} {:>14.1f} {:>8.2f}\n", round, tokens / a, tokens / b, a / b);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace butterfly::bench

int main(int argc, char** argv) {
  using namespace butterfly;
  using namespace butterfly::bench;
  CLI::App app("Measures a chain of two one-thread stages with TLS over loopback.");
  Settings settings;
  bool free = false;
  app.add_option("-m,--model", settings.model, "model file")->required();
  app.add_option("--cut", settings.cut, "piece where the second stage begins; 0: in the middle of the bytes");
  app.add_option("-s,--streams", settings.streams, "at once");
  app.add_option("-p,--prompt", settings.prompt, "tokens of each prompt");
  app.add_option("-n,--generate", settings.generate, "tokens of each answer");
  app.add_option("-r,--rounds", settings.rounds);
  app.add_option("--spin", settings.spin_us, "microseconds that a receiver looks before it sleeps");
  app.add_option("--wire", settings.wire, "how rows travel: f32, f16, int8");
  app.add_flag("--free", free, "leave the threads where the system puts them");
  void (*run)(const Settings&) = nullptr;
  app.add_subcommand("hop", "one stream: what a hop costs, with a breakdown")->fallthrough()->callback([&] {
    run = measure_hop;
  });
  app.add_subcommand("streams", "many streams: two nodes against one")->fallthrough()->callback([&] {
    run = measure_streams;
  });
  app.add_subcommand("prompt", "one long prompt: two nodes against one")->fallthrough()->callback([&] {
    run = measure_prompt;
  });
  app.require_subcommand(1);
  CLI11_PARSE(app, argc, argv);
  settings.pin = !free;
  try {
    std::string command;
    for (int i = 0; i < argc; ++i) command += fmt::format("{}{}", i == 0 ? "" : " ", argv[i]);
    fmt::print("{}\n{}, {}\n", command, cpu_model_name(), kernels::target_name());
    run(settings);
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "chain_bench: {}\n", error.what());
    return 1;
  }
}
