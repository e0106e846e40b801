// A whole cluster on this machine, to try one: keys for one run, this process as the coordinator, and a
// process for every other node.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/nodes/cluster_start.h"
#include "runtime/nodes/local_nodes.h"

namespace butterfly::runtime {

// What the process of a node has to be told.
struct LocalNodeStart {
  std::string name;
  std::string coordinator;  // "127.0.0.1:4711"
  std::filesystem::path token_file, state, capabilities_file;
  std::vector<std::filesystem::path> models;
  uint64_t memory_bytes = 0;
  size_t threads = 0;
};

// Its folder and its processes end with it, and it outlives the hosts it makes. One host at a time. One
// thread.
class LocalCluster final : public ClusterStart {
 public:
  struct Options {
    size_t nodes = 1;    // this process included
    size_t threads = 0;  // of each; 0: an equal share of the CPUs
    RestartLimits restarts = {};
    std::string program;  // version and revision, for what is measured
    WeightPlaces places;
    // The words after the program's name that make it such a node.
    std::function<std::vector<std::string>(const LocalNodeStart&)> arguments;
  };
  // From now on the calling thread, and those it starts, stay on their share of the CPUs.
  explicit LocalCluster(Options options);

  size_t threads() const { return threads_; }  // of each node
  // Founds the cluster, and starts the processes, which wait for the host to listen.
  std::shared_ptr<ClusterHost> make(ClusterHostOptions host) override;

 private:
  void start_nodes(const std::shared_ptr<ClusterHost>& host, const LocalNodeStart& node);

  const Options options_;
  const size_t threads_;
  PrivateFolder folder_;
  LocalNodes nodes_;
};

}  // namespace butterfly::runtime
