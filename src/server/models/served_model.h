// A model that answers requests: weights, engine, template and rules, and the names that share them.
#pragma once
#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "model/chat_template/chat_prompt.h"
#include "model/grammar/structured_output.h"
#include "runtime/engine/adapter_table.h"
#include "runtime/engine/local_engine.h"
#include "runtime/layers/loaded_model.h"
#include "server/tools/chat_family.h"

namespace butterfly::runtime {
class ClusterHost;
struct StageSettings;
}  // namespace butterfly::runtime

namespace butterfly::server {

// What the server was told about a model.
struct ModelSpec {
  std::string name = {};
  std::filesystem::path path = {};
  std::filesystem::path tokenizer = {};
  std::vector<model::AdapterSpec> adapters = {};  // one at most, unless it is on a cluster
  std::string parent = {};                        // of an adapter: the name of the model it belongs to
  uint64_t owner = 0;                             // the API key's that it was made for; 0: it is everybody's
};

struct ModelOptions {
  // Context 0, cache positions 0: see choose_context().
  runtime::LocalEngineOptions run;
  uint64_t cache_bytes_max = 0;  // for the cache of one model, where nothing was asked for; 0: not known
  std::string prefix_folder;     // where beginnings of texts outlive the process; empty: nowhere
  uint64_t prefix_bytes_max = 0;
  FileAccess access = FileAccess::kMap;
  size_t load_threads = 0;
  std::map<std::string, std::string> schemas;  // that those in requests may refer to, by URI
};

// The model of a file and its engine: one for all names over that file, the model's own and those of its
// adapters, whose requests share its steps. What is const may be used by any thread, and the engine and the
// compiler look after themselves. Ends its engine in the destructor.
class ModelEngine {
 public:
  // Borrows what computes, which engines share. Throws Error.
  ModelEngine(const ModelSpec& spec, const ModelOptions& options, Compute& compute);
  // The weights, and the adapters of `spec`, are on the cluster's nodes; here are vocabulary, template and
  // engine. Borrows the cluster.
  ModelEngine(const ModelSpec& spec, const ModelOptions& options, runtime::ClusterHost& cluster);
  ~ModelEngine();

  // Who is called so in logs and metrics: the model that the name belongs to that it was loaded for.
  const std::string& name() const { return name_; }
  const runtime::LoadedModel& loaded() const { return *loaded_; }
  const model::Tokenizer& tokenizer() const { return loaded_->tokenizer_or_throw(); }
  const model::ChatPrompter& prompter() const { return *prompter_; }
  const ChatFamily& family() const { return *family_; }
  const ReasoningMarks* reasoning_marks() const { return reasoning_marks_; }
  runtime::Engine& engine() { return *engine_; }
  model::GrammarCompiler& grammars();
  model::GrammarCompiler* grammars_if_made() { return grammars_ready_ ? grammars_.get() : nullptr; }
  uint64_t weight_bytes() const { return weight_bytes_; }
  uint64_t cache_bytes() const { return cache_bytes_; }

  // False: on a cluster, where each name has an engine of its own.
  bool takes_adapters() const { return adapters_ != nullptr; }
  // Whether it is what would be loaded for this name now: the file may have changed.
  bool is_of(const ModelSpec& spec) const;
  // While it runs; from any thread. Throws Error.
  runtime::AdapterPtr add_adapter(const model::AdapterSpec& adapter);

 private:
  void read_template();
  std::string prefix_identity(const ModelOptions& options) const;

  const std::string name_;
  const std::filesystem::path path_, tokenizer_path_;
  std::unique_ptr<runtime::LoadedModel> loaded_;
  std::shared_ptr<runtime::AdapterTable> adapters_;
  std::unique_ptr<model::ChatPrompter> prompter_;
  const ChatFamily* family_ = nullptr;
  const ReasoningMarks* reasoning_marks_ = nullptr;
  std::shared_ptr<runtime::Engine> engine_;
  model::GrammarOptions grammar_options_;
  std::once_flag grammars_made_;
  std::unique_ptr<model::GrammarCompiler> grammars_;
  std::atomic<bool> grammars_ready_{false};
  uint64_t weight_bytes_ = 0, cache_bytes_ = 0;
};

// What answers to one name: an engine, and perhaps an adapter in it. As thread-safe as the engine.
class ServedModel {
 public:
  // Adds the adapter of `spec`, if it has one, to an engine that takes some. Throws Error.
  ServedModel(const ModelSpec& spec, std::shared_ptr<ModelEngine> engine);

  const std::string& name() const { return spec_.name; }
  const ModelSpec& spec() const { return spec_; }
  const std::shared_ptr<ModelEngine>& shared() const { return shared_; }
  // What requests for this name carry; null: nothing.
  const runtime::AdapterPtr& adapter() const { return adapter_; }
  uint64_t adapter_bytes() const { return adapter_ == nullptr ? 0 : adapter_->layers.bytes; }
  // Of its requests alone.
  runtime::RequestCounts counts() const;

  const runtime::LoadedModel& loaded() const { return shared_->loaded(); }
  const model::Tokenizer& tokenizer() const { return shared_->tokenizer(); }
  const model::ChatPrompter& prompter() const { return shared_->prompter(); }
  // How it writes calls and reasoning, as far as its template tells.
  const ChatFamily& family() const { return shared_->family(); }
  const ReasoningMarks* reasoning_marks() const { return shared_->reasoning_marks(); }  // null: it has none
  // Of all names over the file.
  runtime::Engine& engine() { return shared_->engine(); }
  // The vocabulary as a tree takes memory and time, so it is made when the first rules come.
  model::GrammarCompiler& grammars() { return shared_->grammars(); }
  model::GrammarCompiler* grammars_if_made() { return shared_->grammars_if_made(); }
  std::chrono::system_clock::time_point loaded_at() const { return loaded_at_; }

 private:
  const ModelSpec spec_;
  const std::shared_ptr<ModelEngine> shared_;
  runtime::AdapterPtr adapter_;
  std::chrono::system_clock::time_point loaded_at_ = std::chrono::system_clock::now();
};

using ModelPtr = std::shared_ptr<ServedModel>;

// How the stages of a chain run this model.
runtime::StageSettings stage_settings(const ModelSpec& spec, const ModelOptions& options);

// Memory that loading will take. Reads the head of the file only.
struct MemoryForecast {
  uint64_t weight_bytes = 0, cache_bytes = 0;  // which all names over the file share
  uint64_t adapter_bytes = 0;
};
MemoryForecast forecast_memory(const ModelSpec& spec, const ModelOptions& options);

}  // namespace butterfly::server
