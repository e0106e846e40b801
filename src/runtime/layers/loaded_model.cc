#include "runtime/layers/loaded_model.h"

#include <optional>

#include "base/error.h"
#include "model/arch/predictor.h"

namespace butterfly::runtime {
namespace {

// Ids must be rows of the embedding, so the two sizes have to agree.
void check_vocabulary(const LoadedModel& model) {
  if (model.tokenizer != nullptr && model.tokenizer->vocab_size() != model.config.vocab)
    fail(Errc::kCorrupt, "{}: the vocabulary has {} tokens, token_embd.weight has {} rows",
         model.file.path().string(), model.tokenizer->vocab_size(), model.config.vocab);
}

// True if the matrices are those of this file as it is now.
bool fits(SharedWeights& weights, const model::ModelFile& file) {
  const uint64_t bytes = file.file_bytes();
  const auto modified = std::filesystem::last_write_time(file.path());
  if (weights.packed.empty()) {
    weights.file_bytes = bytes;
    weights.modified = modified;
  }
  return weights.file_bytes == bytes && weights.modified == modified;
}

}  // namespace

const model::Tokenizer& LoadedModel::tokenizer_or_throw() const {
  if (tokenizer == nullptr)
    fail(Errc::kNotFound, "{}: has no tokenizer; for llama2.c files put tokenizer.bin beside it, or name it",
         file.path().string());
  return *tokenizer;
}

std::unique_ptr<LoadedModel> load_model(const std::filesystem::path& path, ThreadPool& pool,
                                        const LoadOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  auto model =
      std::make_unique<LoadedModel>(model::open_model(path, {options.tokenizer_path, options.access}));
  const model::Architecture& architecture = model::architecture_of(model->file);
  model->config = model::read_config(model->file, options.context);
  model->group = options.group;
  share_states(model->config, model->file, model->group);
  const size_t layers = model->config.layers;
  model->range = options.range.value_or(model::LayerRange{0, layers});
  const model::LayerRange range = model->range;
  check_range(range, layers);
  if (options.with_tokenizer && model->file.metadata().has("tokenizer.ggml.model")) {
    model->tokenizer = model::make_tokenizer(model->file.metadata());
    check_vocabulary(*model);
  }
  std::vector<model::Adapter> adapters;
  for (const model::AdapterSpec& spec : options.adapters)
    adapters.push_back(model::open_adapter(spec, model->file));
  // Packing uses every CPU, however few threads will compute: it is over before they start.
  std::optional<ThreadPool> all_cpus;
  if (pool.size() < default_thread_count()) all_cpus.emplace();
  model::WeightLoader weights(model->file, all_cpus ? *all_cpus : pool, options.progress, adapters);
  if (options.weights != nullptr && fits(*options.weights, model->file)) {
    model->weights = options.weights;
    weights.share(model->weights->packed);
  }
  weights.load_share(model->group);
  if (options.adapter_sites && model->is_whole() && !model->group) weights.list_sites(model->adapter_sites);
  if (!model->is_whole())
    weights.expect_only(
        [&](const std::string& name) { return range_needs(range, layers, model->file, name); });
  if (options.progress_bytes > 0) weights.expect_bytes(options.progress_bytes);
  model->network = architecture.load(model->config, weights, range);
  if (options.with_predictor && model->is_whole() && !model->group)
    model->predictor = load_predictor(model->config, weights, *model->network);
  if (model->predictor != nullptr) model->config.predicting = model->predictor->state();
  weights.check_scales_used(
      [&](const std::string& name) { return range_needs(range, layers, model->file, name); });
  // A tied head reads the embedding's matrix, but not what adapters add to the embedding.
  weights.check_adapters_used([&](const std::string& name) {
    return name == model::kEmbeddingTensor ? range.has_embedding()
                                           : range_needs(range, layers, model->file, name);
  });
  model->packed_bytes = weights.packed_bytes();
  model->resident_bytes = weights.resident_bytes();
  model->load_time = std::chrono::steady_clock::now() - start;
  return model;
}

}  // namespace butterfly::runtime
