// Seeded clusters of ordinary machines, as people have them at home: unequal, some on wireless.
#pragma once
#include <cstdint>

#include "cluster/cost/problem.h"

namespace butterfly::bench {

// Cluster `index` of the corpus: 3-8 nodes; memory bandwidth 8-60 GB/s, int8 50-800 GOP/s and RAM 4-64 GiB,
// each log-uniform; 35 % of the nodes on wireless (1-4 ms and 5-50 MB/s to the access point), the others
// wired (0.1-0.3 ms, 117 MB/s). A link has both nodes' latencies and the lesser bandwidth. The first node is
// the coordinator. Drawn again, with the next numbers of the same seed, until all RAM together holds
// `bytes_needed` 1.1 times.
cluster::ClusterSpec corpus_cluster(uint64_t seed, uint64_t index, uint64_t bytes_needed);

}  // namespace butterfly::bench
