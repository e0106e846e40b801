#include "server/models/served_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "kernels/attention/kv_page.h"
#include "kernels/simd/target.h"
#include "model/arch/predictor.h"
#include "runtime/chain/stage_settings.h"
#include "runtime/engine/chain.h"
#include "runtime/engine/prefix_store.h"
#include "runtime/layers/described_model.h"
#include "runtime/nodes/cluster_host.h"
#include "server/models/cache_choice.h"
#include "server/models/file_fingerprint.h"

namespace butterfly::server {
namespace {

size_t asked_context(const ModelOptions& options) { return options.run.engine.scheduler.context; }

CacheChoice choice_of(const ModelOptions& options, const model::ModelConfig& config) {
  return choose_cache(config, {.context = asked_context(options),
                               .positions = options.run.layers.positions,
                               .sequences = options.run.engine.scheduler.running_max,
                               .rows_max = options.run.layers.rows_max,
                               .type = options.run.layers.kv_type,
                               .bytes_max = options.cache_bytes_max});
}

// Of a file, or of a folder that PEFT wrote: about what its matrices take in memory.
uint64_t adapter_bytes(const std::filesystem::path& path) {
  std::error_code error;
  const bool folder = std::filesystem::is_directory(path, error);
  const auto bytes = std::filesystem::file_size(folder ? path / model::kPeftWeights : path, error);
  return error ? 0 : bytes;
}

// With the numbers that depend on the model.
runtime::LocalEngineOptions engine_options(const ModelOptions& options, const model::ModelConfig& config) {
  runtime::LocalEngineOptions run = options.run;
  const CacheChoice choice = choice_of(options, config);
  run.engine.scheduler.context = choice.context;
  run.layers.positions = choice.positions;
  return run;
}

}  // namespace

runtime::StageSettings stage_settings(const ModelSpec& spec, const ModelOptions& options) {
  const model::ModelFile file =
      model::open_model(spec.path, {.tokenizer_path = spec.tokenizer, .access = FileAccess::kMap});
  const auto run = engine_options(options, model::read_config(file, asked_context(options)));
  runtime::StageSettings settings;
  settings.context = run.engine.scheduler.context;
  settings.positions = run.layers.positions;
  settings.sequences = run.engine.scheduler.running_max;
  settings.rows_max = run.layers.rows_max;
  settings.kv_type = run.layers.kv_type;
  return settings;
}

ModelEngine::ModelEngine(const ModelSpec& spec, const ModelOptions& options, Compute& compute)
    : name_(spec.parent.empty() ? spec.name : spec.parent),
      path_(spec.path),
      tokenizer_path_(spec.tokenizer),
      adapters_(std::make_shared<runtime::AdapterTable>()) {
  grammar_options_.documents = options.schemas;
  runtime::LoadOptions load;
  load.tokenizer_path = spec.tokenizer;
  load.access = options.access;
  load.context = asked_context(options);
  load.adapter_sites = true;
  load.weights = std::make_shared<runtime::SharedWeights>();  // a job that learns beside it reads them, too
  load.with_predictor = runtime::predicts(options.run.engine.scheduler);
  {
    ThreadPool loaders(options.load_threads);  // not the engines': they go on meanwhile
    loaded_ = runtime::load_model(spec.path, loaders, load);
  }
  read_template();
  runtime::LocalEngineOptions run = engine_options(options, loaded_->config);
  run.engine.adapters = adapters_;
  if (!options.prefix_folder.empty())
    run.engine.prefix_store = [&, identity = prefix_identity(options)](const runtime::CachePages& pages) {
      runtime::PrefixStore::Sizes sizes{};
      for (size_t kind = 0; kind < sizes.size(); ++kind)
        sizes[kind] = pages.size(static_cast<graph::PageKind>(kind));
      return std::make_shared<runtime::PrefixStore>(
          runtime::PrefixStoreOptions{options.prefix_folder, options.prefix_bytes_max, identity}, sizes);
    };
  engine_ = runtime::make_local_engine(*loaded_, compute, run);
  const CacheChoice choice = choice_of(options, loaded_->config);
  cache_bytes_ = choice.bytes;
  weight_bytes_ = loaded_->file.tensor_bytes();
  log_info("{}: loaded in {}, {}", name_, format_duration(loaded_->load_time), format_bytes(weight_bytes_));
  log_info("{}: {}", name_, choice.words);
}

ModelEngine::ModelEngine(const ModelSpec& spec, const ModelOptions& options, runtime::ClusterHost& cluster)
    : name_(spec.name), path_(spec.path), tokenizer_path_(spec.tokenizer) {
  grammar_options_.documents = options.schemas;
  runtime::LoadOptions load;
  load.tokenizer_path = spec.tokenizer;
  load.access = options.access;
  load.context = asked_context(options);
  loaded_ = runtime::describe_model(spec.path, load);
  read_template();
  const runtime::EngineOptions engine = engine_options(options, loaded_->config).engine;
  engine_ = cluster.make_engine(spec.name, loaded_->tokenizer.get(), engine);
  log_info("{}: served by the cluster, {} tokens of context", spec.name, engine.scheduler.context);
}

bool ModelEngine::is_of(const ModelSpec& spec) const {
  if (!takes_adapters() || spec.path != path_ || spec.tokenizer != tokenizer_path_) return false;
  std::error_code error;
  const auto modified = std::filesystem::last_write_time(path_, error);
  return !error && loaded_->weights != nullptr && modified == loaded_->weights->modified;
}

runtime::AdapterPtr ModelEngine::add_adapter(const model::AdapterSpec& adapter) {
  return adapters_->add(*loaded_, adapter,
                        fmt::format("adapter {} {}\n", adapter.scale, file_fingerprint(adapter.path)));
}

ServedModel::ServedModel(const ModelSpec& spec, std::shared_ptr<ModelEngine> engine)
    : spec_(spec), shared_(std::move(engine)) {
  if (!shared_->takes_adapters() || spec.adapters.empty()) return;
  if (spec.adapters.size() > 1)
    fail(Errc::kUnsupported, "{}: {} adapters under one name, expected at most one", spec.name,
         spec.adapters.size());
  adapter_ = shared_->add_adapter(spec.adapters[0]);
  log_info("{}: an adapter of {}, rank {}, {}; its requests share the steps of {}", spec.name,
           format_bytes(adapter_bytes()), adapter_->layers.rank_max, spec.adapters[0].path.string(),
           shared_->name());
}

runtime::RequestCounts ServedModel::counts() const {
  return shared_->engine().counts(adapter_ == nullptr ? 0 : adapter_->number);
}

void ModelEngine::read_template() {
  const std::string source = loaded_->file.metadata().string_or("tokenizer.chat_template", "");
  prompter_ = std::make_unique<model::ChatPrompter>(tokenizer(), source);
  family_ = &family_of(source);
  reasoning_marks_ = reasoning_marks_of(source);
  if (!prompter_->own_template())
    log_info("{}: has no chat template; conversations are written as ChatML", name_);
}

ModelEngine::~ModelEngine() {
  if (engine_ != nullptr) engine_->stop();
}

model::GrammarCompiler& ModelEngine::grammars() {
  std::call_once(grammars_made_, [this] {
    grammars_ = std::make_unique<model::GrammarCompiler>(tokenizer(), grammar_options_);
    grammars_ready_ = true;
  });
  return *grammars_;
}

// All that decides the bits of a page besides its tokens and the adapter (add_adapter()). Of the file: its
// head, its size, when it was changed, and samples of its contents; to read all of it at each start would
// take longer than it is worth.
std::string ModelEngine::prefix_identity(const ModelOptions& options) const {
  std::string identity = fmt::format("numerics {}, cache {}, contexts {} {}, page {}\n", kernels::kNumericsId,
                                     dtype_name(options.run.layers.kv_type), loaded_->config.context,
                                     loaded_->config.run_context, kernels::kKvPage);
  identity += file_fingerprint(path_) + "\n";
  if (loaded_->predictor != nullptr) identity += "predicts\n";
  return identity;
}

MemoryForecast forecast_memory(const ModelSpec& spec, const ModelOptions& options) {
  const model::ModelFile file =
      model::open_model(spec.path, {.tokenizer_path = spec.tokenizer, .access = FileAccess::kMap});
  model::ModelConfig config = model::read_config(file, asked_context(options));
  if (runtime::predicts(options.run.engine.scheduler))
    config.predicting = model::predicting_state(file, config);
  MemoryForecast forecast{.weight_bytes = file.tensor_bytes(),
                          .cache_bytes = choice_of(options, config).bytes};
  for (const model::AdapterSpec& adapter : spec.adapters)
    forecast.adapter_bytes += adapter_bytes(adapter.path);
  return forecast;
}

}  // namespace butterfly::server
