#include "server/models/served_model.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "model/cache/kv_cache.h"
#include "runtime/chain/stage_settings.h"
#include "runtime/layers/described_model.h"
#include "runtime/nodes/cluster_host.h"

namespace butterfly::server {
namespace {

constexpr size_t kDefaultContexts = 4;  // that the cache holds

size_t asked_context(const ModelOptions& options) { return options.run.engine.scheduler.context; }

size_t context_of(const ModelOptions& options, const model::ModelConfig& config) {
  const size_t wanted =
      asked_context(options) > 0 ? asked_context(options) : std::min(config.context, kDefaultContext);
  return config.positions_max > 0 ? std::min(wanted, config.positions_max) : wanted;
}

size_t positions_of(const ModelOptions& options, size_t context) {
  const size_t asked = options.run.layers.positions;
  return std::max(asked > 0 ? asked : kDefaultContexts * context, context);
}

uint64_t cache_bytes(const ModelOptions& options, const model::ModelConfig& config) {
  const model::CacheRoom room =
      model::cache_room(config.states, {.positions = positions_of(options, context_of(options, config)),
                                        .sequences = options.run.engine.scheduler.running_max,
                                        .rows_max = options.run.layers.rows_max});
  return model::state_bytes(config.states, options.run.layers.kv_type, room);
}

// With the numbers that depend on the model.
runtime::LocalEngineOptions engine_options(const ModelOptions& options, const model::ModelConfig& config) {
  runtime::LocalEngineOptions run = options.run;
  run.engine.scheduler.context = context_of(options, config);
  run.layers.positions = positions_of(options, run.engine.scheduler.context);
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
  {
    ThreadPool loaders(options.load_threads);  // not the engines': they go on meanwhile
    loaded_ = runtime::load_model(spec.path, loaders, load);
  }
  read_template();
  const runtime::LocalEngineOptions run = engine_options(options, loaded_->config);
  engine_ = runtime::make_local_engine(*loaded_, compute, run);
  bytes_ = cache_bytes(options, loaded_->config);
  weight_bytes_ = loaded_->file.tensor_bytes();
  log_info("{}: loaded in {}: {} and {} tokens of context", spec.name, format_duration(loaded_->load_time),
           format_bytes(weight_bytes() + bytes_), run.engine.scheduler.context);
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
  });
  return *grammars_;
}

MemoryForecast forecast_memory(const ModelSpec& spec, const ModelOptions& options) {
  const model::ModelFile file =
      model::open_model(spec.path, {.tokenizer_path = spec.tokenizer, .access = FileAccess::kMap});
  return {file.tensor_bytes(), cache_bytes(options, model::read_config(file, asked_context(options)))};
}

}  // namespace butterfly::server
