// A model that answers requests: weights, engine, template and rules for one name.
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
  std::vector<model::AdapterSpec> adapters = {};
  std::string parent = {};  // of an adapter: the name of the model it belongs to
  uint64_t owner = 0;       // the API key's that it was made for; 0: it is everybody's
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

// Loaded in the constructor; ends its engine in the destructor. What is const may be used by any thread, and
// the engine and the compiler look after themselves.
class ServedModel {
 public:
  // Borrows what computes, which models share. Throws Error.
  // `weights`: of a model over the same file, or new ones.
  ServedModel(const ModelSpec& spec, const ModelOptions& options, Compute& compute,
              std::shared_ptr<runtime::SharedWeights> weights);
  // The weights are on the cluster's nodes; here are vocabulary, template and engine. Borrows the cluster.
  ServedModel(const ModelSpec& spec, const ModelOptions& options, runtime::ClusterHost& cluster);
  ~ServedModel();

  const std::string& name() const { return spec_.name; }
  const ModelSpec& spec() const { return spec_; }
  const runtime::LoadedModel& loaded() const { return *loaded_; }
  const model::Tokenizer& tokenizer() const { return loaded_->tokenizer_or_throw(); }
  const model::ChatPrompter& prompter() const { return *prompter_; }
  // How it writes calls and reasoning, as far as its template tells.
  const ChatFamily& family() const { return *family_; }
  const ReasoningMarks* reasoning_marks() const { return reasoning_marks_; }  // null: it has none
  runtime::Engine& engine() { return *engine_; }
  // The vocabulary as a tree takes memory and time, so it is made when the first rules come.
  model::GrammarCompiler& grammars();
  model::GrammarCompiler* grammars_if_made() { return grammars_ready_ ? grammars_.get() : nullptr; }
  uint64_t bytes() const { return bytes_; }  // in memory, but for the weights
  // The weights, which others over the same file may hold as well.
  const std::shared_ptr<runtime::SharedWeights>& weights() const { return loaded_->weights; }
  uint64_t weight_bytes() const { return weight_bytes_; }
  std::chrono::system_clock::time_point loaded_at() const { return loaded_at_; }

 private:
  void read_template();
  std::string prefix_identity(const ModelOptions& options) const;

  const ModelSpec spec_;
  std::unique_ptr<runtime::LoadedModel> loaded_;
  std::unique_ptr<model::ChatPrompter> prompter_;
  const ChatFamily* family_ = nullptr;
  const ReasoningMarks* reasoning_marks_ = nullptr;
  std::shared_ptr<runtime::Engine> engine_;
  model::GrammarOptions grammar_options_;
  std::once_flag grammars_made_;
  std::unique_ptr<model::GrammarCompiler> grammars_;
  std::atomic<bool> grammars_ready_{false};
  uint64_t bytes_ = 0, weight_bytes_ = 0;
  std::chrono::system_clock::time_point loaded_at_ = std::chrono::system_clock::now();
};

using ModelPtr = std::shared_ptr<ServedModel>;

// How the stages of a chain run this model.
runtime::StageSettings stage_settings(const ModelSpec& spec, const ModelOptions& options);

// Memory that loading will take. Reads the head of the file only.
struct MemoryForecast {
  uint64_t weight_bytes = 0;
  uint64_t other_bytes = 0;  // the cache
};
MemoryForecast forecast_memory(const ModelSpec& spec, const ModelOptions& options);

}  // namespace butterfly::server
