// This machine as a node, from what the probe measured.
#pragma once
#include "cluster/node/cluster_spec.h"
#include "kernels/probe/machine_probe.h"

namespace butterfly::cluster {

// Memory bandwidth is that of reads from DRAM. RAM is what this process may use, less `reserve_bytes`.
NodeSpec node_from_probe(const kernels::MachineProbe& probe, uint64_t ram_bytes, uint64_t reserve_bytes = 0);

// One node and no links.
ClusterSpec cluster_of(NodeSpec node);

}  // namespace butterfly::cluster
