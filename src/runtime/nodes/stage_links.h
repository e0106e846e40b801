// Links from stages before, kept until the stage that they are for takes them.
#pragma once
#include <condition_variable>
#include <list>
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
  static constexpr size_t kWaitingMax = 64;  // the oldest goes when one more comes

  void put(cluster::Epoch epoch, std::unique_ptr<cluster::Link> link);
  // The link of this epoch from this peer; waits for it. kTimeout; kCancelled after cancel() of the epoch.
  Result<std::unique_ptr<cluster::Link>> take(cluster::Epoch epoch, const cluster::NodeId& peer,
                                              Duration timeout);
  // Ends waits for this epoch and older ones, and drops their links.
  void cancel(cluster::Epoch epoch);

 private:
  struct Waiting {
    cluster::Epoch epoch;
    std::unique_ptr<cluster::Link> link;
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Waiting> waiting_;
  cluster::Epoch cancelled_ = 0;
};

}  // namespace butterfly::runtime
