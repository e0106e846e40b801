// Tokenizer throughput in bytes of text per second. Needs ../shared/data beside the repository for real
// vocabularies.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "model/formats/model_file.h"
#include "model/tokenizer/tokenizer.h"

namespace butterfly::model {
namespace {

const std::filesystem::path kData = BUTTERFLY_SOURCE_DIR "/../shared/data";

std::string read_text(const char* name) {
  std::ifstream in(kData / "datasets/text" / name, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void encode(benchmark::State& state, const std::string& text) {
  const auto path = kData / "tokenizers/llama2-spm/ggml-vocab-llama-spm.gguf";
  if (!std::filesystem::exists(path) || text.empty()) return state.SkipWithError("no test data");
  const auto tokenizer = make_tokenizer(open_model(path).metadata());
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer->encode(text));
  state.SetBytesProcessed(static_cast<int64_t>(text.size()) * state.iterations());
}

void wikitext(benchmark::State& state) { encode(state, read_text("wikitext-2-valid.txt")); }
void shakespeare(benchmark::State& state) { encode(state, read_text("tinyshakespeare.txt")); }
// One word without any place to cut: letters of a real text.
void long_word(benchmark::State& state) {
  std::string word;
  for (const char c : read_text("tinyshakespeare.txt"))
    if (word.size() < static_cast<size_t>(state.range(0)) && c >= 'a' && c <= 'z') word += c;
  encode(state, word);
}
void same_letter(benchmark::State& state) {
  encode(state, std::string(static_cast<size_t>(state.range(0)), 'a'));
}

void decode(benchmark::State& state) {
  const auto path = kData / "tokenizers/llama2-spm/ggml-vocab-llama-spm.gguf";
  if (!std::filesystem::exists(path)) return state.SkipWithError("no test data");
  const auto tokenizer = make_tokenizer(open_model(path).metadata());
  const std::string text = read_text("tinyshakespeare.txt");
  const auto ids = tokenizer->encode(text);
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer->decode(ids));
  state.SetBytesProcessed(static_cast<int64_t>(text.size()) * state.iterations());
}

void open_vocabulary(benchmark::State& state) {
  const auto path = kData / "tokenizers/llama2-spm/ggml-vocab-llama-spm.gguf";
  if (!std::filesystem::exists(path)) return state.SkipWithError("no test data");
  for (auto _ : state) benchmark::DoNotOptimize(make_tokenizer(open_model(path).metadata()));
}

BENCHMARK(wikitext)->Unit(benchmark::kMillisecond);
BENCHMARK(shakespeare)->Unit(benchmark::kMillisecond);
BENCHMARK(long_word)->RangeMultiplier(4)->Range(1 << 12, 1 << 20)->Unit(benchmark::kMillisecond);
BENCHMARK(same_letter)->RangeMultiplier(4)->Range(1 << 12, 1 << 20)->Unit(benchmark::kMillisecond);
BENCHMARK(decode)->Unit(benchmark::kMillisecond);
BENCHMARK(open_vocabulary)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace butterfly::model
