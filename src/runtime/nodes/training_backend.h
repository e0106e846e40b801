// A node's place for the training run of its cluster: the memory of it, and since when it may be used.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "runtime/nodes/node_memory.h"
#include "runtime/nodes/stage_backend.h"

namespace butterfly::runtime {

// What the run takes on each node, as the settings of its job carry it: "training, bytes 1048576".
std::string training_settings(uint64_t bytes);
// kCorrupt for anything else.
Result<uint64_t> training_bytes(const std::string& settings);

// Has no stage: the leader of the run links to nodes by itself once they have a place. One run at a time.
// Orders come from the node's shell; occupied() from any thread.
class TrainingBackend final : public StageBackend {
 public:
  struct Options {
    std::shared_ptr<NodeMemory> memory;
    std::function<void()> begin;  // the run may work here; may be null
    std::function<void()> end;    // it may not, and when this returns it does not
  };
  explicit TrainingBackend(Options options) : options_(std::move(options)) {}

  Preparation prepare(const cluster::Assignment& work, const std::atomic<bool>& cancelled) override;
  // Nothing is read: claims the memory.
  Result<uint64_t> load(const cluster::Assignment& work, const std::atomic<bool>& cancelled) override;
  Status start(const cluster::Assignment& work, Lost lost) override;
  void stop(cluster::Epoch) override {}  // its leader knows
  void free_weights() override;
  cluster::WorkerProgress progress() const override { return {}; }

  // The run's arrays are in memory, or are not any more.
  void occupied(bool is);

 private:
  const Options options_;
  std::mutex mutex_;
  cluster::JobId job_ = 0;
  uint64_t bytes_ = 0;  // claimed; 0: no place
  bool occupied_ = false;
};

}  // namespace butterfly::runtime
