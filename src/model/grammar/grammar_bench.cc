// What masks cost: real schemas and their instances, token by token, on a real vocabulary.
//
//   model_bench --benchmark_filter=Grammar
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/testing/source_tree.h"
#include "model/grammar/structured_output.h"
#include "model/tokenizer/hf_tokenizer.h"
#include "model/tokenizer/vector_files.h"

namespace butterfly::model {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
const fs::path kData = shared_data();

double micros(Clock::time_point from) {
  return std::chrono::duration<double, std::micro>(Clock::now() - from).count();
}

void report(benchmark::State& state, const std::string& name, std::vector<double> values) {
  if (values.empty()) return;
  std::sort(values.begin(), values.end());
  const auto at = [&](double part) {
    return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1))];
  };
  double sum = 0;
  for (const double v : values) sum += v;
  state.counters[name + "_mean_us"] = sum / static_cast<double>(values.size());
  state.counters[name + "_p50_us"] = at(0.5);
  state.counters[name + "_p99_us"] = at(0.99);
  state.counters[name + "_max_us"] = values.back();
}

std::unique_ptr<Tokenizer> qwen() {
  const fs::path folder = kData / "tokenizers/qwen2.5";
  return tokenizer_from_json(read_whole_file(folder / "tokenizer.json"),
                             read_whole_file(folder / "tokenizer_config.json"));
}

// Follows `text` in the tokenizer's own tokens; the time of each mask is added to `masks`.
bool follow(TokenConstraint& constraint, const Tokenizer& tokenizer, const std::string& text,
            std::vector<double>& masks) {
  std::vector<uint64_t> bits(mask_words(tokenizer.vocab_size()));
  for (const int32_t token : tokenizer.encode(text, {.add_bos = false, .add_eos = false})) {
    const auto from = Clock::now();
    constraint.mask(bits);
    masks.push_back(micros(from));
    if (!(bits[static_cast<size_t>(token) / 64] >> (token % 64) & 1) || !constraint.accept(token))
      return false;
  }
  return constraint.can_end();
}

void Grammar_RealSchemas(benchmark::State& state) {
  if (!fs::exists(kData)) return state.SkipWithError("the shared data are not here");
  const auto tokenizer = qwen();
  for (auto _ : state) {
    const auto from = Clock::now();
    GrammarCompiler compiler(*tokenizer);
    state.counters["vocabulary_ms"] = micros(from) / 1000;
    std::vector<double> compiles, masks;
    size_t followed = 0, valid = 0;
    std::ifstream in(kData / "json/maskbench/schemas.jsonl");
    for (std::string line; std::getline(in, line);) {
      const auto row = json_of_text<nlohmann::ordered_json>(line);
      GrammarSpec spec{
          .kind = GrammarKind::kJsonSchema, .text = json_text(row["schema"]), .tools = {}, .format = {}};
      std::shared_ptr<const CompiledGrammar> grammar;
      const auto begin = Clock::now();
      try {
        grammar = compiler.compile(spec);
      } catch (const Error&) {
        continue;
      }
      compiles.push_back(micros(begin));
      for (const auto& test : row["tests"]) {
        if (!test["valid"].get<bool>()) continue;
        for (const std::string& text : {json_text(test["data"]), json_text(test["data"], 2)}) {
          ++valid;
          followed += follow(*grammar->start(), *tokenizer, text, masks);
        }
      }
    }
    state.counters["tokens"] = static_cast<double>(masks.size());
    state.counters["valid"] = static_cast<double>(valid);
    state.counters["followed"] = static_cast<double>(followed);
    report(state, "mask", masks);
    report(state, "compile", compiles);
  }
}
BENCHMARK(Grammar_RealSchemas)->Unit(benchmark::kMillisecond)->Iterations(1);

void Grammar_Gbnf(benchmark::State& state) {
  if (!fs::exists(kData)) return state.SkipWithError("the shared data are not here");
  const auto tokenizer = qwen();
  GrammarCompiler compiler(*tokenizer);
  const std::string text = read_whole_file(kData / "gbnf/json.gbnf");
  const std::string json =
      R"({"name": "A longer name, with words", "values": [1, 2.5, true, null], "inner": {"text": "more"}})";
  for (auto _ : state) {
    std::vector<double> masks;
    const auto grammar =
        compiler.compile({.kind = GrammarKind::kGbnf, .text = text, .tools = {}, .format = {}});
    for (int i = 0; i < 20; ++i)
      if (!follow(*grammar->start(), *tokenizer, json, masks))
        return state.SkipWithError("the text does not fit");
    report(state, "mask", masks);
  }
}
BENCHMARK(Grammar_Gbnf)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace butterfly::model
