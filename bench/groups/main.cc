// group_bench: how much faster two pinned one-thread members are that share every layer over TLS and loopback
// than one thread, beside two threads of one process; and what their exchanges cost.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <thread>

#include "base/cpu.h"
#include "base/error.h"
#include "chain/loopback_chain.h"
#include "kernels/simd/target.h"
#include "runtime/chain/stage_group.h"
#include "runtime/layers/cached_layers.h"

namespace butterfly::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Settings {
  std::string model;
  size_t rounds = 5, generate = 24, prompt = 512, streams = 8;
};

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double at(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size())))];
}

// Exchanges with the time that each took.
class Timed final : public graph::Exchange {
 public:
  explicit Timed(std::unique_ptr<runtime::StageGroup> group) : group_(std::move(group)) {}
  size_t members() const override { return group_->members(); }
  size_t self() const override { return group_->self(); }
  void run(const graph::ExchangeRound& round) override {
    const auto start = Clock::now();
    group_->run(round);
    took.push_back(us_since(start));
  }
  void start(const graph::ExchangeRound& round) override { group_->start(round); }
  void finish() override {  // only what is waited for
    const auto start = Clock::now();
    group_->finish();
    took.push_back(us_since(start));
  }
  std::vector<double> took;

 private:
  std::unique_ptr<runtime::StageGroup> group_;
};

// Layers, or a member's part of them, that run what they are told.
struct Part {
  Part(const Settings& settings, size_t threads, const model::GroupShare& group)
      : pool(ThreadPool::Options{.threads = threads, .pin = false}) {
    runtime::LoadOptions options;
    options.with_tokenizer = false;
    options.context = 1024;
    options.group = group;
    model = runtime::load_model(settings.model, pool, options);
    layers = std::make_unique<runtime::CachedLayers>(
        *model, pool,
        runtime::CachedLayersOptions{.positions = 2048 + settings.streams * 128,
                                     .sequences = settings.streams,
                                     .kv_type = DType::kF16,
                                     .rows_max = std::max<size_t>(512, settings.prompt)});
  }
  ThreadPool pool;
  std::unique_ptr<runtime::LoadedModel> model;
  std::unique_ptr<runtime::CachedLayers> layers;
};

struct Times {
  std::vector<double> decode, prefill, streams;  // us of a step
};

// One round: a prompt, single tokens behind it, and a batch of single tokens of several texts.
void run_round(runtime::CachedLayers& layers, const Settings& s, Times& times) {
  for (size_t i = 0; i < s.streams; ++i) layers.cache().truncate(i, 0);
  std::vector<runtime::BatchRow> rows;
  for (uint32_t i = 0; i < s.prompt; ++i)
    rows.push_back({static_cast<int32_t>(i % 1000), 0, i, i + 1 == s.prompt});
  const auto step = [&](std::vector<double>& into) {
    const auto start = Clock::now();
    (void)layers.run(rows);
    into.push_back(us_since(start));
  };
  step(times.prefill);
  for (size_t i = 0; i < s.streams; ++i) layers.cache().truncate(i, 0);
  for (uint32_t i = 0; i < s.generate; ++i) {
    rows = {{static_cast<int32_t>(i), 0, i, true}};
    step(times.decode);
  }
  for (size_t i = 0; i < s.streams; ++i) layers.cache().truncate(i, 0);
  for (uint32_t i = 0; i < s.generate; ++i) {
    rows.clear();
    for (uint32_t t = 0; t < s.streams; ++t) rows.push_back({static_cast<int32_t>(i + t), t, i, true});
    step(times.streams);
  }
}

// In a thread on these CPUs.
template <typename F>
std::thread pinned(size_t cpu, F&& f) {
  return std::thread([cpu, f = std::forward<F>(f)] {
    pin_to(cpu);
    f();
  });
}

int run(const Settings& s) {
  const model::UnitRange halves[] = {{0, 4, 8}, {4, 8, 8}};
  model::GroupShare group;
  for (const auto& half : halves) group.members.push_back({half, half, half, half});
  std::unique_ptr<Part> one, two, members[2];
  two = std::make_unique<Part>(s, 2, model::GroupShare{});
  pinned(0, [&] { one = std::make_unique<Part>(s, 1, model::GroupShare{}); }).join();
  for (size_t i = 0; i < 2; ++i) {
    group.self = i;
    pinned(i, [&] { members[i] = std::make_unique<Part>(s, 1, group); }).join();
  }
  std::shared_ptr<cluster::Link> a, b;
  std::tie(a, b) = loopback_pair({});
  Timed first(
      std::make_unique<runtime::StageGroup>(std::vector<std::shared_ptr<cluster::Link>>{nullptr, a}, 0));
  Timed second(
      std::make_unique<runtime::StageGroup>(std::vector<std::shared_ptr<cluster::Link>>{b, nullptr}, 1));
  members[0]->layers->set_exchange(&first);
  members[1]->layers->set_exchange(&second);

  Times alone, both, shared, ignored;
  for (size_t round = 0; round < s.rounds; ++round) {
    pinned(0, [&] { run_round(*one->layers, s, alone); }).join();
    run_round(*two->layers, s, both);
    auto other = pinned(1, [&] { run_round(*members[1]->layers, s, ignored); });
    pinned(0, [&] { run_round(*members[0]->layers, s, shared); }).join();
    other.join();
  }
  fmt::print("{}, {} CPUs, target {}; group_bench {} --rounds {}\n\n", cpu_model_name(),
             default_thread_count(), kernels::target_name(), s.model, s.rounds);
  fmt::print(
      "| step | one thread ms | two threads | two members | members' gain of the threads' "
      "|\n|---|---|---|---|---|\n");
  const auto row = [](const char* name, const std::vector<double>& x, const std::vector<double>& y,
                      const std::vector<double>& z) {
    const double one_us = at(x, 0.5), threads = one_us / at(y, 0.5), gain = one_us / at(z, 0.5);
    fmt::print("| {} | {:.2f} | {:.2f} x | {:.2f} x | {:.2f} |\n", name, one_us / 1000, threads, gain,
               gain / threads);
  };
  row("decode, one text", alone.decode, both.decode, shared.decode);
  row(fmt::format("decode, {} texts", s.streams).c_str(), alone.streams, both.streams, shared.streams);
  row(fmt::format("prompt of {}", s.prompt).c_str(), alone.prefill, both.prefill, shared.prefill);

  // The exchanges of single tokens, waiting for the other member included.
  first.took.clear();
  second.took.clear();
  Settings decode_only = s;
  decode_only.prompt = decode_only.streams = 1;
  auto other = pinned(1, [&] { run_round(*members[1]->layers, decode_only, ignored); });
  pinned(0, [&] { run_round(*members[0]->layers, decode_only, ignored); }).join();
  other.join();
  fmt::print("\nexchange of a row in a generation: p50 {:.1f} us, p90 {:.1f} us\n", at(first.took, 0.5),
             at(first.took, 0.9));
  const size_t bytes = members[0]->model->config.dim * sizeof(float);
  const auto alone_round = [&](Timed& end, size_t peer) {
    std::vector<std::byte> mine(bytes), theirs(bytes);
    const graph::ExchangeRound::Outgoing piece[] = {{.bytes = mine}};
    const graph::ExchangeRound::Incoming from[] = {{peer, theirs}};
    end.took.clear();
    for (size_t i = 0; i < 5000; ++i) end.run({piece, from});
  };
  auto peer = pinned(1, [&] { alone_round(second, 0); });
  pinned(0, [&] { alone_round(first, 1); }).join();
  peer.join();
  fmt::print("exchange of {} bytes alone: p50 {:.1f} us, p90 {:.1f} us\n", bytes, at(first.took, 0.5),
             at(first.took, 0.9));
  return 0;
}

}  // namespace
}  // namespace butterfly::bench

int main(int argc, char** argv) {
  using namespace butterfly;
  CLI::App app("Two members that share every layer against one thread and two.");
  bench::Settings settings;
  app.add_option("MODEL", settings.model, "GGUF file; 'butterfly make-model' writes one")->required();
  app.add_option("--rounds", settings.rounds);
  app.add_option("--generate", settings.generate);
  app.add_option("--prompt", settings.prompt);
  app.add_option("--streams", settings.streams);
  CLI11_PARSE(app, argc, argv);
  try {
    return bench::run(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
