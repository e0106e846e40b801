// A training run with its live line, for the commands that make one.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cli/nodes/train_cluster.h"
#include "train/train_run.h"

namespace CLI {
class App;
}

namespace butterfly::cli {

// What is printed on the way.
enum class TrainLog { kQuiet, kNormal, kVerbose };

struct TrainSession {
  train::TrainConfig config;
  TrainLog log = TrainLog::kNormal;
  bool dry_run = false;
  TrainNodes nodes = {};
  std::shared_ptr<runtime::ClusterStart> start = nullptr;  // of nodes that are there already
  std::string question = {};  // answered after each validation, where the network can; empty: none
  // Called before the first step: false opens it anew with what was changed in the config.
  std::function<bool(train::TrainRun& run, train::TrainConfig& config)> begins = {};
};

// Returns the exit code; `result` is filled where the run ended by itself.
int run_training(TrainSession session, train::RunResult& result);

// Every key of the config as a flag, and what was given.
class TrainKeys {
 public:
  void add_flags(CLI::App& app, const std::string& group);
  void apply(train::TrainConfig& config) const;
  void set(const std::string& key, std::string value) { values_[key] = std::move(value); }
  const std::map<std::string, std::optional<std::string>>& values() const { return values_; }

 private:
  std::map<std::string, std::optional<std::string>> values_;
};

}  // namespace butterfly::cli
