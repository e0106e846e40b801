// A cluster of the ranks of an MPI job, for as long as the job: the first one serves, the others are nodes.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cluster/transport/mpi_world.h"
#include "runtime/nodes/cluster_node.h"
#include "runtime/nodes/cluster_start.h"
#include "runtime/nodes/local_nodes.h"
#include "runtime/nodes/node_capabilities.h"

namespace butterfly::runtime {

// Whether mpirun or srun started this process as one of several, as far as the environment tells: also where
// it cannot be a rank of a job.
bool is_rank_of_several();

// Threads for this rank: its CPUs, shared with the ranks of the same machine that may run on the same ones.
// All ranks call it.
size_t threads_of_rank(cluster::MpiWorld& world);

struct MpiClusterOptions {
  std::shared_ptr<cluster::MpiWorld> world;
  WeightPlaces places;
  CapabilitySource capabilities;
};

// Of the first rank. Keys are made for this job alone; the others get address and token over MPI. It outlives
// the hosts it makes, one of them. One thread.
class MpiCluster final : public ClusterStart {
 public:
  explicit MpiCluster(MpiClusterOptions options) : options_(std::move(options)) {}
  std::shared_ptr<ClusterHost> make(ClusterHostOptions host) override;

 private:
  const MpiClusterOptions options_;
  PrivateFolder folder_;
};

// Of another rank: a node until the first one says that the job is over. Returns then; throws Error where it
// cannot take part. One thread.
class MpiNode {
 public:
  explicit MpiNode(MpiClusterOptions options) : options_(std::move(options)) {}
  // `end_asked_for`: whether this process was told to end; it waits a moment for the first rank then.
  void run(Compute& compute, const std::string& version, const std::function<bool()>& end_asked_for);

 private:
  const MpiClusterOptions options_;
  PrivateFolder folder_;
};

}  // namespace butterfly::runtime
