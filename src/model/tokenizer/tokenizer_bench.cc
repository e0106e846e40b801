// Tokenizer throughput in bytes of text per second. Needs ../shared/data beside the repository for real
// vocabularies.
#include <benchmark/benchmark.h>

#include <filesystem>

#include "base/mapped_file.h"
#include "base/testing/source_tree.h"
#include "model/formats/model_file.h"
#include "model/tokenizer/hf_tokenizer.h"
#include "model/tokenizer/vector_files.h"

namespace butterfly::model {
namespace {

const std::filesystem::path kData = shared_data();

// Metadata first, as a model file gives it: what make_tokenizer() takes is then the vocabulary's own time.
Metadata read_metadata(const std::string& name) {
  const auto folder = kData / "tokenizers" / name;
  if (name == "llama2-spm") return open_model(folder / "ggml-vocab-llama-spm.gguf").metadata();
  Metadata metadata(name);
  add_tokenizer_metadata_from_json(read_whole_file(folder / "tokenizer.json"), "", metadata);
  return metadata;
}

void encode(benchmark::State& state, const std::string& name, const std::string& text) {
  if (!std::filesystem::exists(kData) || text.empty()) return state.SkipWithError("no test data");
  const auto tokenizer = make_tokenizer(read_metadata(name));
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer->encode(text));
  state.SetBytesProcessed(static_cast<int64_t>(text.size()) * state.iterations());
}

// One word without any place to cut: letters of a real text.
std::string long_word(size_t size) {
  std::string word;
  for (const char c : read_whole_file(kData / "datasets/text/tinyshakespeare.txt"))
    if (word.size() < size && c >= 'a' && c <= 'z') word += c;
  return word;
}

void decode(benchmark::State& state, const std::string& name) {
  if (!std::filesystem::exists(kData)) return state.SkipWithError("no test data");
  const auto tokenizer = make_tokenizer(read_metadata(name));
  const std::string text = read_whole_file(kData / "datasets/text/tinyshakespeare.txt");
  const auto ids = tokenizer->encode(text);
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer->decode(ids));
  state.SetBytesProcessed(static_cast<int64_t>(text.size()) * state.iterations());
}

void make(benchmark::State& state, const std::string& name) {
  if (!std::filesystem::exists(kData)) return state.SkipWithError("no test data");
  const Metadata metadata = read_metadata(name);
  for (auto _ : state) benchmark::DoNotOptimize(make_tokenizer(metadata));
}

void read_json(benchmark::State& state, const std::string& name) {
  const auto path = kData / "tokenizers" / name / "tokenizer.json";
  if (!std::filesystem::exists(path)) return state.SkipWithError("no test data");
  const std::string text = read_whole_file(path);
  for (auto _ : state) {
    Metadata metadata(name);
    add_tokenizer_metadata_from_json(text, "", metadata);
    benchmark::DoNotOptimize(metadata);
  }
}

const bool kRegistered = [] {
  const auto add = [](const std::string& name, auto run) {
    benchmark::RegisterBenchmark(name.c_str(), run)->Unit(benchmark::kMillisecond);
  };
  for (const std::string name : {"llama2-spm", "gpt2", "llama3", "qwen2.5"}) {
    for (const char* text : {"wikitext-2-valid.txt", "tinyshakespeare.txt"})
      add(name + "/encode/" + text, [=](benchmark::State& state) {
        encode(state, name, read_whole_file(kData / "datasets/text" / text));
      });
    for (const size_t size : {size_t{1} << 16, size_t{1} << 18, size_t{1} << 20}) {
      add(name + "/one_word/" + std::to_string(size),
          [=](benchmark::State& state) { encode(state, name, long_word(size)); });
      add(name + "/same_letter/" + std::to_string(size),
          [=](benchmark::State& state) { encode(state, name, std::string(size, 'a')); });
      add(name + "/spaces/" + std::to_string(size),
          [=](benchmark::State& state) { encode(state, name, std::string(size, ' ') + "x"); });
    }
    add(name + "/decode", [=](benchmark::State& state) { decode(state, name); });
    add(name + "/make", [=](benchmark::State& state) { make(state, name); });
    if (name != "llama2-spm")
      add(name + "/read_json", [=](benchmark::State& state) { read_json(state, name); });
  }
  return true;
}();

}  // namespace
}  // namespace butterfly::model
