// The coordinator's own stage: the end of the chain, where the head is. Loaded like any other; it runs inside
// the engine.
#pragma once
#include <memory>
#include <mutex>

#include "runtime/chain/chain_times.h"
#include "runtime/nodes/engine_slot.h"
#include "runtime/nodes/kept_cache.h"
#include "runtime/nodes/link_watch.h"
#include "runtime/nodes/range_loader.h"
#include "runtime/nodes/stage_backend.h"
#include "runtime/nodes/stage_links.h"

namespace butterfly::runtime {

// Orders come from the node's shell, one thread; chain() from the one that makes chains, and progress() from
// any. A chain shares the model, so weights that were freed or loaded anew go when the last chain of them
// does. After a failed load() there is none, and chain() says kCancelled.
class CoordinatorBackend final : public StageBackend {
 public:
  // Borrows the links that come in.
  CoordinatorBackend(RangeLoaderOptions options, StageLinks& links);

  Preparation prepare(const cluster::Assignment& work, const std::atomic<bool>& cancelled) override;
  Result<uint64_t> load(const cluster::Assignment& work, const std::atomic<bool>& cancelled) override;
  Status start(const cluster::Assignment&, Lost) override { return {}; }
  void stop(cluster::Epoch epoch) override;
  void free_weights() override;
  cluster::WorkerProgress progress() const override;
  void set_patience(Duration silent_after) override { watch_.look(cut_after(silent_after)); }
  // Called when the way from here to the first stage, from the last one, or to a member is cut. Before the
  // first chain().
  void on_cut(LinkWatch::OnCut on_cut) { on_cut_ = std::move(on_cut); }

  // The chain of this plan, as the engine drives it: all stages are started. Any thread. Blocks until the
  // links are there. Where one does not come, `to_blame` is who is at its other end.
  Result<PlacedChain> chain(cluster::Epoch epoch, const cluster::Placement& placement,
                            const std::vector<std::string>& addresses, cluster::NodeId& to_blame);
  const std::shared_ptr<ChainTimes>& times() const { return times_; }

 private:
  const RangeLoaderOptions options_;
  RangeLoader loader_;
  KeptCache cache_;
  StageLinks& links_;
  const std::shared_ptr<ChainTimes> times_ = std::make_shared<ChainTimes>();

  LinkWatch::OnCut on_cut_;
  LinkWatch watch_;

  mutable std::mutex mutex_;
  std::shared_ptr<const LoadedModel> model_;
  StageSettings settings_;
  cluster::Assignment work_;
  cluster::Epoch epoch_ = 0;
};

}  // namespace butterfly::runtime
