// The cache of a node's stage, through changes of plan: layers that stay keep what they hold.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "cluster/member/control_message.h"
#include "runtime/chain/stage_settings.h"
#include "runtime/engine/stage_cache.h"
#include "runtime/layers/loaded_model.h"
#include "runtime/nodes/parked_caches.h"

namespace butterfly::runtime {

// Only what is certain stays: the same model and settings, and nobody who still computes with it. Whether a
// page's contents are those that are wanted is asked page by page (see StageCache).
//
// shrink(), for_stage() and free() may come from two threads, bytes() from any.
class KeptCache {
 public:
  KeptCache() = default;
  // What leaves is parked there, for this job; null: it is freed.
  KeptCache(std::shared_ptr<ParkedCaches> parked, cluster::JobId job)
      : parked_(std::move(parked)), job_(job) {}

  // Before the weights of this work are loaded: frees all but the layers that are in it. Waits a while for
  // the stage before to let go.
  void shrink(const cluster::Assignment& work, const std::atomic<bool>& cancelled);
  // For the stage that was shrunk for, or a new one.
  std::shared_ptr<StageCache> for_stage(const cluster::ModelTask& task, const LoadedModel& model,
                                        const StageSettings& settings);
  // All layers leave.
  void park();
  void free();
  // Memory in it: free for another stage.
  uint64_t bytes() const;

 private:
  bool wait_for_others(const std::shared_ptr<StageCache>& cache, const std::atomic<bool>* cancelled) const;

  const std::shared_ptr<ParkedCaches> parked_;
  const cluster::JobId job_ = 0;
  mutable std::mutex mutex_;
  std::shared_ptr<StageCache> cache_;
  std::string cache_for_;  // model and settings
  Sha256 identity_{};      // the same
};

}  // namespace butterfly::runtime
