// What a quota on CPU time (a container's) leaves of a machine: how much of the time threads run, and for how
// long a rested process runs before it is stopped for the first time.
#pragma once
#include "base/thread_pool.h"
#include "cluster/node/node_spec.h"

namespace butterfly::cluster {

// A quota of Q in every period P is no slower CPU: threads run at full speed, are stopped when Q is used up
// (or at the timer tick behind that), and go on in a later period. Whoever works without a pause gets Q / P
// of the time. Whoever waits for others in between finds the quota unused and gets its first work done at
// full speed: work of c seconds takes c / share - burst (1 / share - 1).
struct CpuShare {
  double share = 1;    // of the time of all threads, without a pause; 1: no quota
  double burst_s = 0;  // run at once after a rest
};

// Measured on all threads of the pool, which must be idle; about two seconds under a quota, nothing without.
CpuShare measure_cpu_share(ThreadPool& pool);

// A node whose rates are of the time in which its threads run, at what it sustains: half of a CPU, half the
// speed.
void apply_share(NodeSpec& node, double share);

}  // namespace butterfly::cluster
