// The memory of one node, as the jobs on it share it.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include "base/clock.h"
#include "base/free_memory.h"
#include "cluster/member/epoch.h"

namespace butterfly::runtime {

// What each job of this node has asked for and what of it is in memory. Thread-safe.
class NodeMemory {
 public:
  using Free = std::function<uint64_t()>;
  // `bytes_max`: for all jobs together; 0: what is free. `free`: of the machine; tests pass a made-up one.
  explicit NodeMemory(
      uint64_t bytes_max = 0, Free free = [] { return free_memory_bytes(); })
      : bytes_max_(bytes_max), free_(std::move(free)) {}

  // What all jobs together could have: what is free, and the weights that they hold.
  uint64_t usable_bytes() const;
  // What this job could have: without what the others still need of what they asked for.
  uint64_t usable_bytes(cluster::JobId job) const;

  // The job is about to take so much in all: weights, cache, activations.
  void claim(cluster::JobId job, uint64_t bytes);
  // So much of it, its weights, is in memory.
  void loaded(cluster::JobId job, uint64_t weight_bytes);
  // Nothing of it is in memory any more.
  void release(cluster::JobId job);

  // What a job has will be freed soon: who needs room waits for that. Ends with release().
  void will_release(cluster::JobId job);
  // Returns when no other job is about to free its memory, or after `timeout`.
  void wait_for_releases(cluster::JobId job, Duration timeout);

 private:
  struct Row {
    uint64_t claimed = 0, resident = 0;
    bool going = false;
  };
  const uint64_t bytes_max_;
  const Free free_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<cluster::JobId, Row> rows_;
};

}  // namespace butterfly::runtime
