// Caches of layers that left this node, kept for a while for the nodes that got them.
#pragma once
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/member/control_message.h"
#include "cluster/transport/hello.h"
#include "runtime/chain/page_transfer.h"
#include "runtime/nodes/event_loop.h"

namespace butterfly::runtime {

// What caches of a job's model are of: the model's hash and the settings of its stages.
Sha256 cache_identity(const cluster::ModelTask& task);

// All jobs of a node. A part stays until those who took over its layers are done with them, its job is loaded
// anew in a way that needs the memory, or kParkedMax. Thread-safe.
class ParkedCaches {
 public:
  static constexpr Duration kParkedMax = std::chrono::minutes(2);
  static constexpr size_t kPartsMax = 8;                         // the oldest go
  static constexpr Duration kFindMax = std::chrono::seconds(2);  // for a stage that is about to let go

  explicit ParkedCaches(Clock& clock = SystemClock::instance());
  ~ParkedCaches();

  // A cache of this job will be put, or settled() says that there is none: empty() is false until then.
  void expect(cluster::JobId job);
  void settled(cluster::JobId job);
  void put(cluster::JobId job, const Sha256& identity, std::shared_ptr<const StageCache> part);
  void drop(cluster::JobId job);
  // Nobody will ask any more, or nothing is left to ask for. Frees what is too old.
  bool empty();
  uint64_t bytes(cluster::JobId job) const;  // in memory

  // Answers on a link of this purpose, until it ends.
  void serve(cluster::Link& link, const cluster::Hello& hello);
  // Runs this on a thread of its own, one after the other: what must not hold up a stage.
  void later(std::function<void()> task) { loop_.post(std::move(task)); }

 private:
  class OfJob;
  struct Part {
    cluster::JobId job;
    Sha256 identity;
    std::shared_ptr<const StageCache> cache;
    std::vector<bool> wanted;  // by layer, from the cache's first one on
    TimePoint until;
  };
  std::shared_ptr<const StageCache> find(cluster::JobId job, const LayersOf& layers);
  void done(cluster::JobId job, const LayersOf& layers);
  // With the lock: what is too old goes to `gone`, to be freed without it.
  void expire(std::list<Part>& gone);
  void sweep();  // what is too old goes, and its memory to the system

  Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Part> parts_;
  std::vector<cluster::JobId> expected_;
  EventLoop loop_;
};

}  // namespace butterfly::runtime
