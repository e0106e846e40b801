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

ServedModel::ServedModel(const ModelSpec& spec, const ModelOptions& options, Compute& compute,
                         std::shared_ptr<runtime::SharedWeights> weights)
    : spec_(spec) {
  grammar_options_.documents = options.schemas;
  runtime::LoadOptions load;
  load.tokenizer_path = spec.tokenizer;
  load.access = options.access;
  load.context = asked_context(options);
  load.adapters = spec.adapters;
  load.weights = std::move(weights);
  load.with_predictor = runtime::predicts(options.run.engine.scheduler);
  {
    ThreadPool loaders(options.load_threads);  // not the engines': they go on meanwhile
    loaded_ = runtime::load_model(spec.path, loaders, load);
  }
  read_template();
  runtime::LocalEngineOptions run = engine_options(options, loaded_->config);
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
  bytes_ = choice.bytes;
  weight_bytes_ = loaded_->file.tensor_bytes();
  log_info("{}: loaded in {}, {}", spec.name, format_duration(loaded_->load_time),
           format_bytes(weight_bytes()));
  log_info("{}: {}", spec.name, choice.words);
}

ServedModel::ServedModel(const ModelSpec& spec, const ModelOptions& options, runtime::ClusterHost& cluster)
    : spec_(spec) {
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

void ServedModel::read_template() {
  const std::string source = loaded_->file.metadata().string_or("tokenizer.chat_template", "");
  prompter_ = std::make_unique<model::ChatPrompter>(tokenizer(), source);
  family_ = &family_of(source);
  reasoning_marks_ = reasoning_marks_of(source);
  if (!prompter_->own_template())
    log_info("{}: has no chat template; conversations are written as ChatML", spec_.name);
}

ServedModel::~ServedModel() {
  if (engine_ != nullptr) engine_->stop();
}

model::GrammarCompiler& ServedModel::grammars() {
  std::call_once(grammars_made_, [this] {
    grammars_ = std::make_unique<model::GrammarCompiler>(tokenizer(), grammar_options_);
    grammars_ready_ = true;
  });
  return *grammars_;
}

// All that decides the bits of a page besides its tokens. Of the file: its head, its size, when it was
// changed, and samples of its contents; to read all of it at each start would take longer than it is worth.
std::string ServedModel::prefix_identity(const ModelOptions& options) const {
  std::string identity = fmt::format("numerics {}, cache {}, contexts {} {}, page {}\n", kernels::kNumericsId,
                                     dtype_name(options.run.layers.kv_type), loaded_->config.context,
                                     loaded_->config.run_context, kernels::kKvPage);
  identity += file_fingerprint(spec_.path) + "\n";
  for (const model::AdapterSpec& adapter : spec_.adapters)
    identity += fmt::format("adapter {} {}\n", adapter.scale, file_fingerprint(adapter.path));
  if (loaded_->predictor != nullptr) identity += "predicts\n";
  return identity;
}

MemoryForecast forecast_memory(const ModelSpec& spec, const ModelOptions& options) {
  const model::ModelFile file =
      model::open_model(spec.path, {.tokenizer_path = spec.tokenizer, .access = FileAccess::kMap});
  model::ModelConfig config = model::read_config(file, asked_context(options));
  if (runtime::predicts(options.run.engine.scheduler))
    config.predicting = model::predicting_state(file, config);
  return {file.tensor_bytes(), choice_of(options, config).bytes};
}

}  // namespace butterfly::server
