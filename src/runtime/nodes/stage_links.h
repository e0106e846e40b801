// Links from stages before, kept until the stage that they are for takes them.
#pragma once
#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "cluster/member/epoch.h"
#include "cluster/transport/link.h"

namespace butterfly::runtime {

// A link may come before its stage is told to start, and a stage may start before its link comes.
// Thread-safe.
class StageLinks {
 public:
  // When one more comes, the oldest of the same peer goes; when all places are taken, the oldest of the peer
  // that has the most. So nobody pushes out the links of others.
  static constexpr size_t kWaitingPerPeer = 32;
  static constexpr size_t kWaitingMax = 512;

  void put(cluster::JobId job, cluster::Epoch epoch, std::unique_ptr<cluster::Link> link);
  // The link of this job and epoch from this peer; waits for it. kTimeout; kCancelled after cancel() of the
  // epoch.
  Result<std::unique_ptr<cluster::Link>> take(cluster::JobId job, cluster::Epoch epoch,
                                              const cluster::NodeId& peer, Duration timeout);
  // Ends waits for this epoch of the job and older ones, and drops their links. Other jobs' stay.
  void cancel(cluster::JobId job, cluster::Epoch epoch);

 private:
  bool over(cluster::JobId job, cluster::Epoch epoch) const;

  struct Waiting {
    cluster::JobId job;
    cluster::Epoch epoch;
    std::unique_ptr<cluster::Link> link;
  };
  std::list<Waiting>::iterator oldest_of(const std::string& key);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Waiting> waiting_;
  // The newest epoch of each job that is over; of jobs that this node was told of.
  std::map<cluster::JobId, cluster::Epoch> cancelled_;
};

}  // namespace butterfly::runtime
