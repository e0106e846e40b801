#include "cluster/node/this_node.h"

#include "base/check.h"

namespace butterfly::cluster {

NodeSpec node_from_probe(const kernels::MachineProbe& probe, uint64_t ram_bytes, uint64_t reserve_bytes) {
  BF_CHECK(!probe.memory.empty()) << "a probe without memory";
  const kernels::Rate& read = probe.memory.back().read;
  NodeSpec node{.name = "here", .threads = probe.threads};
  node.f32 = {probe.f32.one, probe.f32.all};
  node.int8 = {probe.int8.one, probe.int8.all};
  node.memory = {read.one, read.all};
  // Attention, norms and rounding of rows: 36-47 of 359 GFLOP/s on the machine of docs/planner.md, in prompts
  // of 256.
  node.other_efficiency = 0.12;
  node.ram_bytes = ram_bytes > reserve_bytes ? ram_bytes - reserve_bytes : 0;
  return node;
}

ClusterSpec cluster_of(NodeSpec node) {
  ClusterSpec cluster;
  cluster.nodes = {std::move(node)};
  cluster.connect_all({});
  return cluster;
}

}  // namespace butterfly::cluster
