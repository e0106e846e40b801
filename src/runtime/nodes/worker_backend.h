// A stage on a node that is not the coordinator's: loaded from its assignment, run between two links.
#pragma once
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/chain/stage_runner.h"
#include "runtime/nodes/group_links.h"
#include "runtime/nodes/kept_cache.h"
#include "runtime/nodes/range_loader.h"
#include "runtime/nodes/stage_backend.h"
#include "runtime/nodes/stage_links.h"

namespace butterfly::runtime {

// Orders come from the node's shell, one thread; progress() from any. The stage has a thread of its own from
// start() until it ends, which `lost` tells once, or until stop(). After a failed load() nothing is in memory
// and start() is refused.
class WorkerBackend final : public StageBackend {
 public:
  // Borrows the links that come in.
  WorkerBackend(RangeLoaderOptions options, StageLinks& links);
  ~WorkerBackend() override;

  Preparation prepare(const cluster::Assignment& work, const std::atomic<bool>& cancelled) override;
  Result<uint64_t> load(const cluster::Assignment& work, const std::atomic<bool>& cancelled) override;
  Status start(const cluster::Assignment& work, Lost lost) override;
  void stop(cluster::Epoch epoch) override;
  void free_weights() override;
  void cache_wanted(bool wanted) override;
  cluster::WorkerProgress progress() const override;
  void set_patience(Duration silent_after) override { cut_after_ = cut_after(silent_after); }

 private:
  void run(const cluster::Assignment& work, std::unique_ptr<cluster::Link> to, GroupLinks members,
           const Lost& lost);
  void end_run();

  const RangeLoaderOptions options_;
  RangeLoader loader_;
  KeptCache cache_;
  StageLinks& links_;
  std::shared_ptr<const LoadedModel> model_;
  cluster::Epoch epoch_ = 0;  // running or loaded; 0: none
  std::thread thread_;
  std::atomic<bool> stopping_{false}, ended_{true};
  std::atomic<Duration> cut_after_{cut_after(std::chrono::seconds(3))};

  mutable std::mutex mutex_;
  std::shared_ptr<StageRunner> runner_;
};

}  // namespace butterfly::runtime
