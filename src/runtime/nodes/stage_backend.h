// What a node's shell does with orders: have weights, load a part of a model, run it.
#pragma once
#include <atomic>
#include <functional>
#include <string>

#include "cluster/member/worker.h"

namespace butterfly::runtime {

// After this silence of another machine's system the way to it is cut: a little more than its program may be
// silent, which is noticed first and says more.
inline Duration cut_after(Duration silent_after) { return silent_after + std::chrono::milliseconds(200); }

// prepare(), load(), start(), stop() and free_weights() come from one thread, one after the other, and may
// take long; `cancelled` turns true when what they do is not wanted any more. progress() comes from any
// thread.
class StageBackend {
 public:
  virtual ~StageBackend() = default;

  // The weights of this work are on disk, and the next stage's node can be reached.
  struct Preparation {
    Status status;
    cluster::NodeId unreachable = {};  // who does not answer, where that is what failed
  };
  virtual Preparation prepare(const cluster::Assignment& work, const std::atomic<bool>& cancelled) = 0;
  // They are in memory: how many bytes. Frees what an earlier load() had, or keeps what is the same.
  virtual Result<uint64_t> load(const cluster::Assignment& work, const std::atomic<bool>& cancelled) = 0;
  // Takes steps from now on. `lost` comes later, once, if the stage ends by itself.
  using Lost = std::function<void(const cluster::NodeId& peer, const std::string& why)>;
  virtual Status start(const cluster::Assignment& work, Lost lost) = 0;
  // Returns when the stage of this epoch has ended, if there is one.
  virtual void stop(cluster::Epoch epoch) = 0;
  virtual void free_weights() = 0;
  // Before free_weights(): whether other nodes may ask for what its cache holds.
  virtual void cache_wanted(bool wanted) { (void)wanted; }
  virtual cluster::WorkerProgress progress() const = 0;
  // A machine that answers nothing for so long is gone, as the cluster sees it. From any thread.
  virtual void set_patience(Duration silent_after) { (void)silent_after; }
};

}  // namespace butterfly::runtime
