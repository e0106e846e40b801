// engine_bench: tokens/s of several streams, gaps while a long prompt is read, and what guessing ahead gains.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/cpu.h"
#include "base/error.h"
#include "engine/load.h"
#include "kernels/simd/target.h"

namespace {

struct Mode {
  const char* name;
  const char* help;
  void (*run)(const butterfly::bench::Setup&);
  size_t streams, prompt, generate;  // unless told
};

constexpr Mode kModes[] = {
    {"streams", "tokens/s of several streams at once", butterfly::bench::measure_streams, 8, 128, 64},
    {"adapters", "the same with 0, 1 and 4 LoRA adapters in one batch, and in engines of their own",
     butterfly::bench::measure_adapters, 8, 128, 64},
    {"gap", "gaps between tokens while a long prompt is read in", butterfly::bench::measure_gap, 4, 4096, 0},
    {"sampling", "what choosing tokens takes of a step", butterfly::bench::measure_sampling, 1, 8, 64},
    {"speculation", "what guessing ahead gains and costs", butterfly::bench::measure_speculation, 1, 256,
     192},
};

}  // namespace

int main(int argc, char** argv) {
  using namespace butterfly;
  CLI::App app("Measures the engine on a model file.");
  std::string path;
  size_t threads = 0, rounds = 3, streams = 0, prompt = 0, generate = 0;
  float temperature = 0;
  app.add_option("-m,--model", path, "model file")->required();
  app.add_option("-t,--threads", threads, "0: as many as there are CPUs");
  app.add_option("-r,--rounds", rounds);
  app.add_option("-s,--streams", streams, "at once");
  app.add_option("-p,--prompt", prompt, "tokens of each prompt");
  app.add_option("-n,--generate", generate, "tokens of each answer");
  app.add_option("--temperature", temperature, "0: greedy");
  const Mode* mode = nullptr;
  for (const Mode& row : kModes)
    app.add_subcommand(row.name, row.help)->fallthrough()->callback([&] { mode = &row; });
  app.require_subcommand(1);
  CLI11_PARSE(app, argc, argv);
  try {
    Compute compute(threads == 0 ? default_thread_count() : threads);
    runtime::LoadOptions load;
    load.with_tokenizer = false;
    load.adapter_sites = true;
    load.context = (prompt == 0 ? mode->prompt : prompt) + (generate == 0 ? mode->generate : generate) + 64;
    const auto model = runtime::load_model(path, compute.take().pool(), load);
    std::string command;
    for (int i = 0; i < argc; ++i) command += fmt::format("{}{}", i == 0 ? "" : " ", argv[i]);
    fmt::print("{}\n{}, {} threads, {}\n", command, cpu_model_name(), compute.size(), kernels::target_name());
    mode->run({*model, compute, rounds, streams == 0 ? mode->streams : streams,
               prompt == 0 ? mode->prompt : prompt, generate == 0 ? mode->generate : generate, temperature});
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "engine_bench: {}\n", error.what());
    return 1;
  }
}
