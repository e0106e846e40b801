// How a server gets the cluster that it serves a model on: of the machines that join, or of processes of this
// one.
#pragma once
#include <memory>
#include <string>

#include "runtime/nodes/cluster_host.h"
#include "runtime/nodes/node_capabilities.h"

namespace butterfly::runtime {

// Made by whoever read the flags, used by the server; outlives the hosts it makes. Of one thread.
class ClusterStart {
 public:
  virtual ~ClusterStart() = default;

  // `host` has what the server knows: model, version, placement, threads. What else it needs is filled in
  // here. The host is not started yet. Throws Error as ClusterHost does.
  virtual std::shared_ptr<ClusterHost> make(ClusterHostOptions host) = 0;
};

// The cluster of `init` and `join`: nodes come by and by, and are found on the local network. One thread.
class JoinedCluster final : public ClusterStart {
 public:
  struct Options {
    std::filesystem::path state;  // a StateFolder where the cluster was made
    std::string listen;           // "host:port"; empty: the usual port on all addresses
    WeightPlaces places;
    CapabilitySource capabilities;
    bool discoverable = true;              // answers those who look for clusters on the local network
    std::shared_ptr<LeadShell> lead = {};  // ClusterHostOptions
  };
  explicit JoinedCluster(Options options) : options_(std::move(options)) {}

  std::shared_ptr<ClusterHost> make(ClusterHostOptions host) override;

 private:
  const Options options_;
};

}  // namespace butterfly::runtime
