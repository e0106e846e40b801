// The engine of a model on a cluster, and the chain it has at the moment.
#pragma once
#include <functional>
#include <memory>
#include <mutex>

#include "runtime/engine/engine.h"
#include "runtime/engine/stage.h"

namespace butterfly::runtime {

// A chain as the cluster's shell made it. `cut` breaks it from outside: its steps fail as if a peer was lost.
struct Chain {
  std::unique_ptr<Stage> stage;
  std::function<void()> cut;
};

// The shell gives and takes chains; the engine sees a stage that is lost now and then, and replays its texts
// from the log. Either may come first. Thread-safe.
class EngineSlot {
 public:
  // What all chains have in common.
  explicit EngineSlot(const StageInfo& info) : info_(info) {}

  // One engine at a time; whoever has it ends it.
  std::shared_ptr<Engine> make_engine(const model::Tokenizer* tokenizer, EngineOptions options);

  void install(Chain chain);
  // The chain is over; another one will come. Requests wait.
  void remove();
  // No chain can come for now: requests end with this status, until expect() or install().
  void give_up(const Status& why);
  // A chain is on its way after all: requests wait again.
  void expect();
  bool has_chain() const;

  // Called on the engine's thread when a chain broke by itself, once for each.
  void on_lost(std::function<void(const Status&)> lost);

 private:
  void stage_lost(const Status& why);

  const StageInfo info_;
  mutable std::mutex mutex_;
  std::function<void(const Status&)> lost_;
  std::weak_ptr<Engine> engine_;
  std::unique_ptr<Stage> waiting_;  // for the engine to be made
  std::function<void()> cut_;       // of the chain that is there
  bool has_chain_ = false;
  bool given_up_ = false;
};

}  // namespace butterfly::runtime
