// The engine of a model on a cluster, and the chain it has at the moment.
#pragma once
#include <functional>
#include <memory>
#include <mutex>

#include "cluster/member/epoch.h"
#include "runtime/engine/engine.h"
#include "runtime/nodes/gated_chain.h"
#include "runtime/nodes/job_steps.h"

namespace butterfly::runtime {

// A chain as the cluster's shell made it, for the plan of this epoch.
struct PlacedChain {
  cluster::Epoch epoch = 0;
  std::unique_ptr<Chain> chain;
};

// The shell gives and takes chains; the engine sees one that is lost now and then, and replays its texts
// from the log. Either may come first. All others may call make_engine() and connected().
class EngineSlot final : public JobSteps {
 public:
  // As JobSteps::connect().
  using MakeChain = std::function<Result<PlacedChain>(
      cluster::Epoch epoch, const cluster::Placement& placement, const std::vector<std::string>& addresses,
      cluster::NodeId& to_blame)>;
  // `info`: what all chains have in common. Without `make_chain` they are given to install().
  explicit EngineSlot(const ChainInfo& info, MakeChain make_chain = nullptr)
      : info_(info), make_chain_(std::move(make_chain)) {}

  // One engine at a time; whoever has it ends it.
  std::shared_ptr<Engine> make_engine(const model::Tokenizer* tokenizer, EngineOptions options);

  void install(PlacedChain placed);
  Result<Use> connect(cluster::Epoch epoch, const cluster::Placement& placement,
                      const std::vector<std::string>& addresses, cluster::NodeId& to_blame) override;
  void pause(std::function<void()> paused) override;
  void resume() override;
  // Requests wait. The engine lets go of the chain after its step, and with it of the memory.
  void remove() override;
  void give_up(const Status& why) override;
  void expect() override;
  bool connected() const override;
  // Called mostly on the engine's thread.
  void on_lost(Lost lost) override;
  // Of the engine, if there is one. From any thread.
  EngineStats stats() const;

 private:
  void chain_lost(cluster::Epoch epoch, const Status& why);

  const ChainInfo info_;
  const MakeChain make_chain_;
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
