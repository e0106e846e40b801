// The engine of a model on a cluster, and the chain it has at the moment.
#pragma once
#include <functional>
#include <memory>
#include <mutex>

#include "cluster/member/epoch.h"
#include "runtime/engine/engine.h"
#include "runtime/nodes/gated_chain.h"

namespace butterfly::runtime {

// A chain as the cluster's shell made it, for the plan of this epoch.
struct PlacedChain {
  cluster::Epoch epoch = 0;
  std::unique_ptr<Chain> chain;
};

// The shell gives and takes chains; the engine sees one that is lost now and then, and replays its texts
// from the log. Either may come first. The shell calls from one thread, all others may call make_engine() and
// has_chain().
class EngineSlot {
 public:
  // What all chains have in common.
  explicit EngineSlot(const ChainInfo& info) : info_(info) {}

  // One engine at a time; whoever has it ends it.
  std::shared_ptr<Engine> make_engine(const model::Tokenizer* tokenizer, EngineOptions options);

  void install(PlacedChain placed);
  // Steps under way end, no other begins; then `paused` is called, on any thread. Without a chain: at once.
  void pause(std::function<void()> paused);
  void resume();
  // The chain is over; another one will come. Requests wait. The engine lets go of the chain after its step,
  // and with it of the memory.
  void remove();
  // No chain can come for now: requests end with this status, until expect() or install().
  void give_up(const Status& why);
  // A chain is on its way after all: requests wait again.
  void expect();
  // There is one, and it is not known to be broken.
  bool has_chain() const;
  // Of the engine, if there is one. From any thread.
  EngineStats stats() const;

  // Called when a chain broke by itself, once for each, with its epoch. Mostly on the engine's thread.
  using Lost = std::function<void(cluster::Epoch epoch, const Status& why)>;
  void on_lost(Lost lost);

 private:
  void chain_lost(cluster::Epoch epoch, const Status& why);

  const ChainInfo info_;
  mutable std::mutex mutex_;
  Lost lost_;
  std::weak_ptr<Engine> engine_;
  std::unique_ptr<Chain> waiting_;  // for the engine to be made
  std::shared_ptr<StepGate> gate_;  // of the chain that is there
  cluster::Epoch epoch_ = 0;        // of it; 0: none, or it broke
  bool engine_has_it_ = false;      // a chain, whole or broken
  bool given_up_ = false;
};

}  // namespace butterfly::runtime
