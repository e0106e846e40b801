// Packages, cores, NUMA nodes and caches that this process may use.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace butterfly::cluster {

struct Topology {
  uint32_t packages = 0;
  uint32_t numa_nodes = 0;
  uint32_t cores = 0;
  uint32_t hardware_threads = 0;
  uint64_t l1d_bytes = 0, l2_bytes = 0, l3_bytes = 0;  // of one instance each; 0: not known
};

// By affinity and control group. All zero where the system does not say; never throws.
Topology this_topology();

// `cpus` for `count` nodes of one machine, some for each: as many nodes in each NUMA node as its CPUs are
// worth, so that a node's threads are near its memory; inside one, neighbours in the order of its cores.
// Fewer nodes than NUMA nodes have several whole ones, as far as that is equal; with fewer CPUs than nodes
// they have one each, in turn. `machine`: a description that hwloc understands ("numa:2 core:4 pu:2"), for
// tests; empty: this one. Never throws.
std::vector<std::vector<int>> cpus_of_nodes(const std::vector<int>& cpus, size_t count,
                                            const std::string& machine = {});

}  // namespace butterfly::cluster
