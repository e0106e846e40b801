#include "runtime/nodes/cluster_start.h"

#include <fmt/format.h>

#include "cluster/node/addresses.h"

namespace butterfly::runtime {

std::shared_ptr<ClusterHost> JoinedCluster::make(ClusterHostOptions host) {
  host.state = options_.state;
  host.listen = options_.listen.empty() ? fmt::format("0.0.0.0:{}", cluster::kClusterPort)
                                        : cluster::with_port(options_.listen);
  host.places = options_.places;
  host.capabilities = node_capabilities(options_.capabilities, cluster::StateFolder::open(options_.state),
                                        options_.places.cache, host.compute->take().pool());
  host.discoverable = options_.discoverable;
  host.lead = options_.lead;
  return std::make_shared<ClusterHost>(std::move(host));
}

}  // namespace butterfly::runtime
