#include "runtime/model_digest_table.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/random_stream.h"
#include "base/rng.h"
#include "graph/executor.h"
#include "graph/gradients.h"
#include "kernels/digest/digest.h"
#include "model/adapter/fresh_adapter.h"
#include "model/arch/adaptable.h"
#include "model/arch/network.h"
#include "model/arch/weights.h"
#include "model/metadata/architecture_names.h"
#include "model/synthetic/random_model.h"
#include "runtime/layers/cached_layers.h"

namespace butterfly::runtime {
namespace {

// Each kind of matrix product once, and the layouts that differ in attention, norms, gates and experts.
constexpr ModelDigestRow kRows[] = {
    {"llama", DType::kF32, DType::kF32},
    {"llama", DType::kF16, DType::kF16},
    {"llama", DType::kBF16, DType::kF16},
    {"llama", DType::kQ8_0, DType::kQ8_0},
    {"llama", DType::kQ4_0, DType::kF16},
    {"llama", DType::kQ4_K, DType::kQ8_0},
    {"llama", DType::kQ5_K, DType::kF16},
    {"llama", DType::kQ6_K, DType::kF32},
    {"llama", DType::kQ5_0, DType::kF16},
    {"qwen2", DType::kQ8_0, DType::kF16},
    {"qwen3", DType::kQ4_K, DType::kF16},
    {"qwen3moe", DType::kQ4_0, DType::kF16},
    {"qwen35", DType::kF16, DType::kF16},
    {"qwen35moe", DType::kQ8_0, DType::kF16},
    {"qwen3next", DType::kQ4_0, DType::kF32},
    {"gpt2", DType::kF16, DType::kF16},
    {"phi3", DType::kQ4_0, DType::kQ8_0},
    {"gemma2", DType::kQ4_K, DType::kF16},
    {"gemma3", DType::kQ8_0, DType::kF32},
    {"gpt-oss", DType::kMXFP4, DType::kF16},
    {"mistral3", DType::kQ4_K, DType::kF16},
    {"smollm3", DType::kQ8_0, DType::kF16},
    {"granite", DType::kF16, DType::kF16},
    {"granitemoe", DType::kQ8_0, DType::kF16},
    {"olmo2", DType::kQ4_0, DType::kF16},
    {"glm4moe", DType::kQ8_0, DType::kF32},
    {"minimax-m2", DType::kMXFP4, DType::kF16},
    {"qwen3vl", DType::kF32, DType::kF32},
    {"qwen3vlmoe", DType::kF16, DType::kF16},
    {"lfm2", DType::kQ4_0, DType::kF16},
    {"lfm2moe", DType::kQ8_0, DType::kF16},
    {"gemma4", DType::kQ8_0, DType::kF16},
    {"nemotron_h", DType::kF16, DType::kF16},
    {"nemotron_h_moe", DType::kQ4_0, DType::kF16},
    {"granitehybrid", DType::kQ8_0, DType::kF32},
    {"deepseek2", DType::kQ8_0, DType::kQ8_0},
    {"deepseek2", DType::kF32, DType::kF16},
    {"qwen3", DType::kQ1_0, DType::kF16},
    // Gradients through packed weights of each kind of activation, experts, capped heads.
    {"llama", DType::kF16, DType::kF32, true},
    {"llama", DType::kQ8_0, DType::kF32, true},
    {"llama", DType::kQ4_0, DType::kF32, true},
    {"llama", DType::kQ4_K, DType::kF32, true},
    {"qwen3moe", DType::kQ4_0, DType::kF32, true},
    {"gemma2", DType::kQ6_K, DType::kF32, true},
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

constexpr uint32_t kVocabulary = 320;

// A prompt across two pages of the cache, then decoding.
void digest_logits(const std::filesystem::path& file, DType cache, kernels::Digest& digest) {
  ThreadPool pool(1);
  LoadOptions load;
  load.with_tokenizer = false;
  const auto model = load_model(file, pool, load);
  CachedLayers layers(*model, pool, {.positions = 64, .sequences = 1, .kv_type = cache, .rows_max = 64});
  uint32_t position = 0;
  for (uint32_t count : {37, 1, 1, 3, 1}) {
    std::vector<BatchRow> rows;
    for (uint32_t i = 0; i < count; ++i, ++position)
      rows.push_back({static_cast<int32_t>(position * 97 % kVocabulary), 0, position, true});
    digest.add(layers.run(rows));
  }
}

// Two documents in a window: loss and the gradients of an adapter that has learned something.
void digest_adapter_step(const std::filesystem::path& file, kernels::Digest& digest) {
  constexpr size_t kLength = 70;
  ThreadPool pool(1);
  const model::ModelFile base = model::open_model(file);
  model::Adapter adapter = model::fresh_adapter(
      base, {.rank = 4, .alpha = 8, .modules = {"all-linear"}, .takes = model::adaptable_tensors(base)});
  adapter.learns = true;
  for (model::LoraPair& pair : adapter.pairs)
    for (int64_t i = 0; i < pair.b.count(); ++i)
      pair.b.data<float>()[i] =
          0.05f * random_normal(9, random_stream(pair.target), static_cast<uint64_t>(i));
  const model::ModelConfig config = model::read_config(base);
  model::WeightLoader weights(base, pool, {}, {&adapter, 1});
  const auto network = model::architecture_of(base).load(config, weights, {0, config.layers});
  graph::Graph g;
  const model::TrainingValues values = network->build_training(g, {.length = kLength});
  std::vector<graph::ValueId> results = {values.loss.loss};
  for (const auto& gradient : graph::gradients(g, values.loss.loss).parameters)
    results.push_back(gradient.value);
  for (const graph::ValueId result : results) g.mark_output(result);
  graph::Arena arena;
  graph::Executor executor(std::move(g), arena, pool);
  const auto fill = [&](graph::ValueId value, auto number) {
    auto* to = reinterpret_cast<int32_t*>(executor.input(value));
    for (size_t i = 0; i < kLength; ++i) to[i] = static_cast<int32_t>(number(i));
  };
  fill(values.tokens, [](size_t i) { return i * 97 % kVocabulary; });
  fill(values.positions, [](size_t i) { return i < 40 ? i : i - 40; });
  fill(values.targets, [](size_t i) { return i % 9 == 4 ? -1 : static_cast<int32_t>(i * 31 % kVocabulary); });
  *reinterpret_cast<float*>(executor.input(values.factor)) = 1.0f / kLength;
  executor.run(nullptr);
  for (const graph::ValueId result : results) {
    const graph::ValueType& type = executor.graph().type(result);
    digest.add(std::span(executor.output(result), type.rows() * type.cols()));
  }
}

}  // namespace

std::string ModelDigestRow::name() const {
  if (learns) return fmt::format("{} {}, an adapter's step", architecture, dtype_name(weights));
  return fmt::format("{} {}, {} cache", architecture, dtype_name(weights), dtype_name(cache));
}

std::span<const ModelDigestRow> model_digest_table() { return kRows; }

uint64_t model_digest(const ModelDigestRow& row) {
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

  kernels::Digest digest;
  if (row.learns) {
    digest_adapter_step(file.path, digest);
  } else {
    digest_logits(file.path, row.cache, digest);
  }
  return digest.value();
}

}  // namespace butterfly::runtime
