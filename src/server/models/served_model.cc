#include "server/models/served_model.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "model/kv_cache.h"
#include "runtime/chain/stage_settings.h"
#include "runtime/engine/local_engine.h"
#include "runtime/layers/described_model.h"
#include "runtime/nodes/cluster_host.h"

namespace butterfly::server {
namespace {

constexpr size_t kDefaultContexts = 4;  // that the cache holds

size_t context_of(const ModelOptions& options, const model::ModelConfig& config) {
  const size_t wanted = options.context > 0 ? options.context : std::min(config.context, kDefaultContext);
  return config.positions_max > 0 ? std::min(wanted, config.positions_max) : wanted;
}

size_t positions_of(const ModelOptions& options, size_t context) {
  const size_t wanted = options.cache_positions > 0 ? options.cache_positions : kDefaultContexts * context;
  return std::max(wanted, context);
}

uint64_t cache_bytes(const ModelOptions& options, const model::ModelConfig& config) {
  const model::KvShape shape{
      .layers = config.layers, .kv_heads = config.kv_heads, .layout = {options.cache_type, config.head_dim}};
  return uint64_t{model::kv_bytes_per_position(shape)} * positions_of(options, context_of(options, config));
}

runtime::EngineOptions engine_options(const ModelOptions& options, size_t context) {
  runtime::EngineOptions engine;
  engine.running_max = options.parallel;
  engine.waiting_max = options.queue;
  engine.waiting_tokens_max = options.queue_tokens;
  engine.context = context;
  engine.reuse_prefix = options.reuse_prefix;
  engine.speculate = options.speculate;
  return engine;
}

}  // namespace

runtime::StageSettings stage_settings(const ModelSpec& spec, const ModelOptions& options) {
  const model::ModelFile file =
      model::open_model(spec.path, {.tokenizer_path = spec.tokenizer, .access = FileAccess::kMap});
  const size_t context = context_of(options, model::read_config(file, options.context));
  runtime::StageSettings settings;
  settings.context = context;
  settings.positions = positions_of(options, context);
  settings.sequences = options.parallel;
  settings.rows_max = options.batch;
  settings.kv_type = options.cache_type;
  return settings;
}

ServedModel::ServedModel(const ModelSpec& spec, const ModelOptions& options, ThreadPool& pool,
                         std::mutex& turn, std::shared_ptr<runtime::SharedWeights> weights)
    : spec_(spec) {
  grammar_options_.documents = options.schemas;
  runtime::LoadOptions load;
  load.tokenizer_path = spec.tokenizer;
  load.access = options.access;
  load.context = options.context;
  load.adapters = spec.adapters;
  load.weights = std::move(weights);
  {
    ThreadPool loaders(options.load_threads);  // not the engines': they go on meanwhile
    loaded_ = runtime::load_model(spec.path, loaders, load);
  }
  read_template();
  const size_t context = context_of(options, loaded_->config);
  runtime::LocalEngineOptions engine;
  engine.engine = engine_options(options, context);
  engine.positions = positions_of(options, context);
  engine.kv_type = options.cache_type;
  engine.rows_max = options.batch;
  engine.turn = &turn;
  engine_ = runtime::make_local_engine(*loaded_, pool, engine);
  bytes_ = cache_bytes(options, loaded_->config);
  weight_bytes_ = loaded_->file.tensor_bytes();
  log_info("{}: loaded in {}: {} and {} tokens of context", spec.name, format_duration(loaded_->load_time),
           format_bytes(weight_bytes() + bytes_), context);
}

ServedModel::ServedModel(const ModelSpec& spec, const ModelOptions& options, runtime::ClusterHost& cluster)
    : spec_(spec) {
  grammar_options_.documents = options.schemas;
  runtime::LoadOptions load;
  load.tokenizer_path = spec.tokenizer;
  load.access = options.access;
  load.context = options.context;
  loaded_ = runtime::describe_model(spec.path, load);
  read_template();
  const size_t context = context_of(options, loaded_->config);
  engine_ = cluster.make_engine(loaded_->tokenizer.get(), engine_options(options, context));
  log_info("{}: served by the cluster, {} tokens of context", spec.name, context);
}

void ServedModel::read_template() {
  const std::string source = loaded_->file.metadata().string_or("tokenizer.chat_template", "");
  prompter_ = std::make_unique<model::ChatPrompter>(tokenizer(), source);
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
  return {file.tensor_bytes(), cache_bytes(options, model::read_config(file, options.context))};
}

}  // namespace butterfly::server
