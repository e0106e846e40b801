// `serve` and `train` as ranks of an MPI job: the first one serves or leads, the others are its nodes.
#pragma once
#include <functional>
#include <memory>

#include "cluster/transport/mpi_world.h"
#include "runtime/nodes/cluster_start.h"
#include "server/settings/settings.h"

namespace butterfly::cli {

// A rank's part in the job. One thread.
class MpiServe {
 public:
  // Null where this process is no rank of several. Sets the threads of this rank. Throws Error for settings
  // that do not go together.
  static std::unique_ptr<MpiServe> join(server::Settings& settings);

  size_t ranks() const { return world_->size(); }
  bool is_first() const { return world_->rank() == 0; }
  // Calls `body`, and ends the job after it: the first rank tells the others, and all wait for each other. An
  // exception ends all ranks at once, with its words.
  int run(const std::function<int()>& body) const;
  // Of the first rank.
  std::shared_ptr<runtime::ClusterStart> cluster_start(const server::Settings& settings) const;
  // The same for a training run.
  std::shared_ptr<runtime::ClusterStart> training_start() const;
  // Of the others; returns when the job is over.
  void work(const server::Settings& settings) const;

 private:
  explicit MpiServe(std::shared_ptr<cluster::MpiWorld> world) : world_(std::move(world)) {}

  const std::shared_ptr<cluster::MpiWorld> world_;
};

}  // namespace butterfly::cli
