// `train` on several nodes: of the machines that joined, or of processes of this one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/compute.h"
#include "runtime/nodes/cluster_start.h"
#include "runtime/training/training_leader.h"

namespace butterfly::cli {

struct TrainNodes {
  size_t local = 0;      // processes of this machine, this one included
  bool cluster = false;  // machines that joined
  size_t wanted = 0;     // of the cluster, this one included: the first step waits for them
  std::string state, listen;
  bool any() const { return local > 1 || cluster; }
};

// A cluster that a run is led from. Made before the run's trainer: its threads stay on this node's share of
// the CPUs. Of one thread; outlives the leaders it makes.
class TrainCluster {
 public:
  // `threads`: of each node; 0: a share of the CPUs. `start`: of the ranks of an MPI job, instead of machines
  // that joined. Throws Error.
  TrainCluster(const TrainNodes& nodes, size_t threads,
               std::shared_ptr<runtime::ClusterStart> start = nullptr);
  ~TrainCluster();

  size_t threads() const { return threads_; }
  std::unique_ptr<runtime::TrainingLeader> lead(train::TrainRun& run);

 private:
  const TrainNodes nodes_;
  size_t threads_;
  Compute compute_{1};  // for measurements
  std::shared_ptr<runtime::ClusterStart> start_;
  std::shared_ptr<runtime::ClusterHost> host_;
};

}  // namespace butterfly::cli
