// `butterfly bench`: tokens per second with the flags and columns of llama-bench, or the machine's own
// limits.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/units.h"
#include "cli/commands/commands.h"
#include "cli/console/exit_code.h"
#include "cli/console/flags.h"
#include "cli/console/interrupt.h"
#include "cli/console/options.h"
#include "cli/console/progress.h"
#include "cli/console/version.h"
#include "cli/models/model_store.h"
#include "kernels/probe/machine_probe.h"
#include "kernels/simd/target.h"
#include "runtime/measure/benchmark.h"

namespace butterfly::cli {
namespace {

using Json = nlohmann::ordered_json;

struct BenchOptions {
  std::vector<std::string> models;
  std::vector<size_t> prompts = {512};
  std::vector<size_t> generations = {128};
  std::vector<size_t> depths = {0};
  std::vector<size_t> streams = {1};
  std::vector<size_t> threads = {0};
  std::string cache_type = "f16";
  std::vector<std::string> adapters;
  size_t batch = 512;
  size_t repetitions = 5;
  std::string output = "md";
  bool machine = false;
  bool profile = false;
  bool no_warmup = false;
};

// One finished row.
struct Row {
  std::string model;
  std::string type;
  uint64_t bytes, parameters;
  size_t threads;
  runtime::BenchmarkResult result;
};

// "llama 1.1 B Q4_0": architecture, size, and the type that holds most of the weights.
std::string model_type(const model::ModelFile& file) {
  const auto shares = file.type_shares();
  return fmt::format("{} {} {}", file.architecture(), format_count(file.parameter_count()),
                     shares.empty() ? "empty" : shares.front().type);
}

Json to_json(const Row& row) {
  const auto& test = row.result.test;
  double seconds = 0;
  for (double run : row.result.seconds) seconds += run;
  Json json;
  json["build_commit"] = build_info().revision;
  json["cpu_info"] = cpu_model_name();
  json["backends"] = "CPU " + kernels::target_name();
  json["model_filename"] = row.model;
  json["model_type"] = row.type;
  json["model_size"] = row.bytes;
  json["model_n_params"] = row.parameters;
  json["n_threads"] = row.threads;
  json["n_prompt"] = test.n_prompt;
  json["n_gen"] = test.n_gen;
  json["n_depth"] = test.depth;
  json["n_streams"] = test.streams;
  json["avg_ns"] = static_cast<uint64_t>(seconds * 1e9 /
                                         static_cast<double>(std::max<size_t>(row.result.seconds.size(), 1)));
  json["avg_ts"] = row.result.mean();
  json["stddev_ts"] = row.result.stddev();
  json["median_ts"] = row.result.median();
  json["samples_ts"] = row.result.rates();
  json["flops"] = row.result.cost.flops;
  json["weight_bytes"] = row.result.cost.weight_bytes;
  return json;
}

// Prints rows as they come: long benchmarks should show something early.
class Printer {
 public:
  explicit Printer(const std::string& format) : format_(format) {
    if (format_ == "md") {
      fmt::print("| {:<24} | {:>10} | {:>8} | {:<11} | {:>7} | {:>16} | {:>19} | {:>10} | {:>9} |\n", "model",
                 "size", "params", "backend", "threads", "test", "t/s", "weights", "compute");
      fmt::print(
          "| {:-<24} | {:->9}: | {:->7}: | {:-<11} | {:->6}: | {:->15}: | {:->18}: | {:->9}: | {:->8}: |\n",
          "", "", "", "", "", "", "", "", "");
    }
    if (format_ == "json") fmt::print("[");
  }

  void row(const Row& row) {
    const auto& result = row.result;
    if (format_ == "md") {
      const double runs_per_second = result.mean() / static_cast<double>(result.test.tokens());
      // Weights are read once per run of all streams; arithmetic is done for each.
      const double bytes = static_cast<double>(result.cost.weight_bytes) * runs_per_second;
      const double flops = static_cast<double>(result.cost.flops * result.test.streams) * runs_per_second;
      fmt::print(
          "| {:<24} | {:>10} | {:>8} | {:<11} | {:>7} | {:>16} | {:>10.2f} ± {:>6.2f} | {:>5.1f} GB/s | "
          "{:>4.0f} GOP/s |\n",
          row.type, format_bytes(row.bytes), format_count(row.parameters), "CPU " + kernels::target_name(),
          row.threads, result.test.name(), result.mean(), result.stddev(), bytes / 1e9, flops / 1e9);
    } else if (format_ == "csv") {
      const Json json = to_json(row);
      std::vector<std::string> names, values;
      for (const auto& [key, value] : json.items()) {
        if (value.is_array()) continue;
        names.push_back(key);
        values.push_back(value.is_string() ? "\"" + value.get<std::string>() + "\"" : json_text(value));
      }
      if (!printed_) fmt::print("{}\n", fmt::join(names, ","));
      fmt::print("{}\n", fmt::join(values, ","));
    } else {
      fmt::print("{}\n{}", printed_ ? "," : "", json_text(to_json(row), 2));
    }
    printed_ = true;
    std::fflush(stdout);
  }

  ~Printer() {
    if (format_ == "json") fmt::print("\n]\n");
  }

 private:
  std::string format_;
  bool printed_ = false;
};

std::vector<runtime::BenchmarkTest> tests_of(const BenchOptions& options) {
  std::vector<runtime::BenchmarkTest> tests;
  for (size_t depth : options.depths)
    for (size_t streams : options.streams) {
      for (size_t n : options.prompts)
        if (n > 0) tests.push_back({.n_prompt = n, .n_gen = 0, .depth = depth, .streams = streams});
      for (size_t n : options.generations)
        if (n > 0) tests.push_back({.n_prompt = 0, .n_gen = n, .depth = depth, .streams = streams});
    }
  return tests;
}

void print_profile(const runtime::CachedLayers& layers) {
  uint64_t total = 0;
  for (const auto& op : layers.profile()) total += op.ns;
  for (const auto& op : layers.profile())
    fmt::print(stderr, "{:<18} {:>9} calls {:>12} {:5.1f} %\n", op.op, op.calls,
               format_duration(std::chrono::nanoseconds(op.ns)),
               100.0 * static_cast<double>(op.ns) / static_cast<double>(std::max<uint64_t>(total, 1)));
}

void bench_model(const BenchOptions& options, const std::string& path, size_t threads, Printer& printer) {
  ThreadPool pool(threads);
  runtime::LoadOptions load;
  load.with_tokenizer = false;
  for (const std::string& text : options.adapters) load.adapters.push_back(model::parse_adapter_spec(text));
  Progress progress("loading", 1, ProgressUnit::kBytes);
  load.progress = [&](uint64_t done, uint64_t total) {
    throw_if_interrupted();
    progress.update(done, total);
  };
  const auto model = runtime::load_model(resolve_model(path), pool, load);
  const auto dtype = dtype_by_name(options.cache_type);
  if (!dtype) fail(Errc::kInvalidArgument, "--cache-type {}: expected f16, f32 or q8_0", options.cache_type);
  for (const runtime::BenchmarkTest& test : tests_of(options)) {
    throw_if_interrupted();
    // Whole pages for every stream.
    const size_t positions = (test.positions() + 31) / 32 * 32 * test.streams;
    runtime::CachedLayers layers(
        *model, pool,
        {.positions = positions, .sequences = test.streams, .kv_type = *dtype, .rows_max = options.batch});
    layers.set_profiling(options.profile);
    Row row{.model = path,
            .type = model_type(model->file),
            .bytes = model->file.tensor_bytes(),
            .parameters = model->file.parameter_count(),
            .threads = pool.size(),
            .result = runtime::run_benchmark(
                layers, test, options.repetitions, [] { return !interrupted(); }, !options.no_warmup)};
    throw_if_interrupted();
    printer.row(row);
    if (options.profile) print_profile(layers);
  }
}

int bench_machine(const BenchOptions& options) {
  ThreadPool pool(options.threads.front());
  const kernels::MachineProbe probe = kernels::probe_machine(pool);
  if (options.output != "json") {
    fmt::print("{}", kernels::to_text(probe));
    return kExitOk;
  }
  const auto rate = [](const kernels::Rate& r) { return Json{{"one", r.one}, {"all", r.all}}; };
  Json json;
  json["cpu"] = probe.cpu;
  json["target"] = probe.target;
  json["threads"] = probe.threads;
  for (const auto& level : probe.memory)
    json["memory"].push_back({{"level", level.level},
                              {"bytes", level.bytes},
                              {"read", rate(level.read)},
                              {"copy", rate(level.copy)}});
  json["f32"] = rate(probe.f32);
  json["int8"] = rate(probe.int8);
  json["int8_instruction"] = probe.int8_instruction;
  fmt::print("{}\n", json_text(json, 2));
  return kExitOk;
}

int bench(const BenchOptions& options) {
  if (options.machine) return bench_machine(options);
  if (options.models.empty()) fail(Errc::kInvalidArgument, "bench: -m MODEL or --machine is needed");
  if (options.batch == 0) fail(Errc::kInvalidArgument, "-b 0: expected at least 1");
  if (std::find(options.streams.begin(), options.streams.end(), 0u) != options.streams.end())
    fail(Errc::kInvalidArgument, "--streams 0: expected at least 1");
  Printer printer(options.output);
  for (const std::string& model : options.models)
    for (size_t threads : options.threads) bench_model(options, model, threads, printer);
  return kExitOk;
}

}  // namespace

CommandBody setup_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  add_option(app, "-m,--model", options->models, "Model file or name (several: repeat or separate by commas)")
      .separator(',');
  add_option(app, "-p,--n-prompt", options->prompts, "Prompt lengths, 0 for none")
      .separator(',')
      .show_default();
  add_option(app, "-n,--n-gen", options->generations, "Tokens to generate, 0 for none")
      .separator(',')
      .show_default();
  add_option(app, "-d,--n-depth", options->depths, "Tokens of context before the test")
      .separator(',')
      .show_default();
  add_option(app, "--streams", options->streams, "Sequences at once").separator(',').show_default();
  add_option(app, "-t,--threads", options->threads, "Threads; 0: all this process may use")
      .separator(',')
      .show_default();
  add_option(app, "-r,--repetitions", options->repetitions, "Timed runs of each test").show_default();
  add_option(app, "-b,--batch-size", options->batch, "Prompt tokens per step").show_default();
  add_option(app, "--cache-type", options->cache_type, "Key/value cache: f16, f32 or q8_0").show_default();
  add_lora_flag(app, options->adapters);
  add_option(app, "-o,--output", options->output, "md, csv or json")
      .one_of({"md", "csv", "json"})
      .show_default();
  add_flag(app, "--machine", options->machine,
           "Measure the machine instead: memory bandwidth, FMA and int8 peak");
  add_flag(app, "--profile", options->profile, "Time by operation, on stderr");
  add_flag(app, "--no-warmup", options->no_warmup, "Time the first run too: no untimed one before it");
  return [options] { return bench(*options); };
}

}  // namespace butterfly::cli
