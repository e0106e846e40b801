// Tokens per second of several streams whose requests name LoRA adapters: in one batch, and in an engine for
// each adapter, as if they were models of their own over the same weights.
#include <fmt/format.h>

#include "base/random_stream.h"
#include "engine/load.h"
#include "model/adapter/fresh_adapter.h"
#include "model/arch/adaptable.h"
#include "runtime/engine/adapter_table.h"

namespace butterfly::bench {
namespace {

constexpr size_t kRank = 16, kAdapters = 4;

// Of all matrices of attention and feed-forward parts, as if it had learned already.
model::Adapter learned_adapter(const model::ModelFile& file, uint64_t seed) {
  model::Adapter adapter = model::fresh_adapter(
      file,
      {.rank = kRank, .modules = {"all-linear"}, .takes = model::adaptable_tensors(file), .seed = seed});
  for (model::LoraPair& pair : adapter.pairs)
    for (int64_t i = 0; i < pair.b.count(); ++i)
      pair.b.data<float>()[i] =
          0.01f * random_normal(seed, random_stream(pair.target), static_cast<uint64_t>(i));
  return adapter;
}

struct Row {
  const char* name;
  size_t adapters;  // that the streams name, in turn
  bool with_base;   // and some of them none
  bool apart;       // each in an engine of its own
};
constexpr Row kRows[] = {{"no adapter", 0, false, false},
                         {"1 adapter", 1, false, false},
                         {"4 adapters, one batch", 4, false, false},
                         {"base and 4, one batch", 4, true, false},
                         {"4 adapters, 4 engines", 4, false, true}};

}  // namespace

void measure_adapters(const Setup& setup) {
  const auto table = std::make_shared<runtime::AdapterTable>();
  std::vector<runtime::AdapterPtr> adapters;
  for (uint64_t i = 0; i < kAdapters; ++i)
    adapters.push_back(table->add(setup.model, learned_adapter(setup.model.file, i + 1), ""));
  fmt::print("{} streams, prompts of {}, {} tokens each, rank {} on all matrices ({:.1f} MB each)\n",
             setup.streams, setup.prompt, setup.generate, kRank,
             static_cast<double>(adapters[0]->layers.bytes) / 1e6);
  fmt::print("{:>5} {:<24} {:>12} {:>12} {:>12} {:>8}\n", "round", "", "prompt t/s", "decode t/s",
             "total t/s", "steps");
  for (size_t round = 0; round <= setup.rounds; ++round)  // the first is not counted
    for (const Row& row : kRows) {
      runtime::LocalEngineOptions options;
      options.engine.adapters = table;
      options.engine.scheduler.running_max = setup.streams;
      options.engine.scheduler.speculate = false;
      options.layers.positions = setup.streams * (setup.prompt + setup.generate + 64);
      std::vector<std::unique_ptr<runtime::Engine>> engines;
      for (size_t i = 0; i < (row.apart ? row.adapters : 1); ++i)
        engines.push_back(runtime::make_local_engine(setup.model, setup.compute, options));
      const size_t kinds = row.adapters + row.with_base;
      const Seconds begin = seconds_now();
      std::vector<std::shared_ptr<Recorder>> streams;
      for (size_t i = 0; i < setup.streams; ++i) {
        auto request = plain_request(random_prompt(setup.prompt, setup.model.config.vocab, 100 * round + i),
                                     setup.generate);
        const size_t kind = kinds == 0 ? 0 : i % kinds;
        if (kind < row.adapters) request.adapter = adapters[kind];
        streams.push_back(start(*engines[row.apart ? kind : 0], std::move(request)));
      }
      for (auto& stream : streams) stream->wait();
      const StreamFigures figures = figures_of(streams, begin, setup.prompt);
      uint64_t steps = 0;
      for (const auto& engine : engines) steps += engine->stats().steps;
      if (round == 0) continue;
      fmt::print("{:>5} {:<24} {:>12.2f} {:>12.2f} {:>12.2f} {:>8}\n", round, row.name, figures.prompt,
                 figures.decode, figures.total, steps);
      std::fflush(stdout);
    }
}

}  // namespace butterfly::bench
