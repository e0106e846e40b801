// Packages, cores, NUMA nodes and caches that this process may use.
#pragma once
#include <cstdint>

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

}  // namespace butterfly::cluster
