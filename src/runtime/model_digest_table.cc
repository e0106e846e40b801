#include "runtime/model_digest_table.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "kernels/digest/digest.h"
#include "model/metadata/architecture_names.h"
#include "model/synthetic/random_model.h"
#include "runtime/layers/cached_layers.h"

namespace butterfly::runtime {
namespace {

// Each kind of matrix product once, and the layouts that differ in attention, norms, gates and experts.
constexpr ModelDigestRow kRows[] = {
    {"llama", DType::kF32, DType::kF32},          {"llama", DType::kF16, DType::kF16},
    {"llama", DType::kBF16, DType::kF16},         {"llama", DType::kQ8_0, DType::kQ8_0},
    {"llama", DType::kQ4_0, DType::kF16},         {"llama", DType::kQ4_K, DType::kQ8_0},
    {"llama", DType::kQ5_K, DType::kF16},         {"llama", DType::kQ6_K, DType::kF32},
    {"llama", DType::kQ5_0, DType::kF16},         {"qwen2", DType::kQ8_0, DType::kF16},
    {"qwen3", DType::kQ4_K, DType::kF16},         {"qwen3moe", DType::kQ4_0, DType::kF16},
    {"qwen35", DType::kF16, DType::kF16},         {"qwen35moe", DType::kQ8_0, DType::kF16},
    {"qwen3next", DType::kQ4_0, DType::kF32},     {"gpt2", DType::kF16, DType::kF16},
    {"phi3", DType::kQ4_0, DType::kQ8_0},         {"gemma2", DType::kQ4_K, DType::kF16},
    {"gemma3", DType::kQ8_0, DType::kF32},        {"gpt-oss", DType::kMXFP4, DType::kF16},
    {"mistral3", DType::kQ4_K, DType::kF16},      {"smollm3", DType::kQ8_0, DType::kF16},
    {"granite", DType::kF16, DType::kF16},        {"granitemoe", DType::kQ8_0, DType::kF16},
    {"olmo2", DType::kQ4_0, DType::kF16},         {"glm4moe", DType::kQ8_0, DType::kF32},
    {"minimax-m2", DType::kMXFP4, DType::kF16},   {"qwen3vl", DType::kF32, DType::kF32},
    {"qwen3vlmoe", DType::kF16, DType::kF16},     {"lfm2", DType::kQ4_0, DType::kF16},
    {"lfm2moe", DType::kQ8_0, DType::kF16},       {"gemma4", DType::kQ8_0, DType::kF16},
    {"nemotron_h", DType::kF16, DType::kF16},     {"nemotron_h_moe", DType::kQ4_0, DType::kF16},
    {"granitehybrid", DType::kQ8_0, DType::kF32}, {"deepseek2", DType::kQ8_0, DType::kQ8_0},
    {"deepseek2", DType::kF32, DType::kF16},      {"qwen3", DType::kQ1_0, DType::kF16},
};
static_assert(model::covers_architectures(kRows, &ModelDigestRow::architecture));

// A file of its own, gone at the end of the scope.
struct TemporaryFile {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("butterfly-digest-{}.gguf", getpid());
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
};

}  // namespace

std::string ModelDigestRow::name() const {
  return fmt::format("{} {}, {} cache", architecture, dtype_name(weights), dtype_name(cache));
}

std::span<const ModelDigestRow> model_digest_table() { return kRows; }

uint64_t model_digest(const ModelDigestRow& row) {
  constexpr uint32_t kVocabulary = 320;
  model::RandomModelOptions options;
  options.architecture = row.architecture;
  options.vocabulary_size = kVocabulary;
  options.block_count = std::max(3u, model::random_architecture(row.architecture).layers - 1);
  options.feed_forward_length = 512;
  options.head_count_kv = 2;
  options.expert_count = 4;
  options.matrix_type = options.vocabulary_type = row.weights;
  const TemporaryFile file;
  model::write_random_model(file.path, options);

  ThreadPool pool(1);
  LoadOptions load;
  load.with_tokenizer = false;
  const auto model = load_model(file.path, pool, load);
  CachedLayers layers(*model, pool, {.positions = 64, .sequences = 1, .kv_type = row.cache, .rows_max = 64});
  kernels::Digest digest;
  uint32_t position = 0;
  for (uint32_t count : {37, 1, 1, 3, 1}) {  // a prompt across two pages of the cache, then decoding
    std::vector<BatchRow> rows;
    for (uint32_t i = 0; i < count; ++i, ++position)
      rows.push_back({static_cast<int32_t>(position * 97 % kVocabulary), 0, position, true});
    digest.add(layers.run(rows));
  }
  return digest.value();
}

}  // namespace butterfly::runtime
