// Plays a workload against a chain of stages, event by event, on a virtual clock. Same inputs, same result.
//
// Sequences wait at the coordinator until the first stage is free, and go as a batch: the longest waiting
// ones first, up to batch_max. A batch passes the stages in order; each stage works on one batch at a time,
// first come first served. Back at the coordinator every sequence has one token more, and waits for its next
// step or leaves.
#pragma once
#include "cluster/sim/sim_spec.h"

namespace butterfly::cluster {

// Of a set of times, in seconds.
struct Percentiles {
  double mean = 0, p50 = 0, p95 = 0, p99 = 0, max = 0;
};
Percentiles percentiles_of(std::vector<double> values);

struct SimStageReport {
  double busy_s = 0;
  double down_s = 0;
  double idle_s = 0;       // neither; the three add up to the end
  double utilisation = 0;  // busy / end
  uint64_t steps = 0;
  double mean_queue = 0;  // batches waiting, over time
};

struct SimLinkReport {
  double busy_s = 0;
  double utilisation = 0;
  double bytes = 0;
};

// One step on one stage, for pictures.
struct SimInterval {
  uint32_t stage = 0;
  double from_s = 0, to_s = 0;
  uint32_t batch = 0;  // running number
  bool prefill = false;
  bool down = false;  // the node was gone
};

struct SimReport {
  double end_s = 0;
  uint64_t events = 0;
  uint64_t requests = 0;
  uint64_t tokens = 0;
  double tokens_per_s = 0;
  Percentiles first_token_s;  // from arrival
  Percentiles token_s;        // between the tokens of a request, mean of each request
  Percentiles request_s;      // from arrival to the last token
  uint64_t steps_lost = 0;    // done again after failures
  std::vector<SimStageReport> stages;
  std::vector<SimLinkReport> links;
  std::vector<SimInterval> intervals;
};

struct SimOptions {
  size_t intervals_max = 0;     // keep this many steps for a picture,
  double intervals_from_s = 0;  // beginning here
};

// Throws Error kInvalidArgument for a workload that never ends or names a stage that does not exist.
SimReport simulate(const SimCluster& cluster, const Workload& workload, const SimOptions& options = {});

}  // namespace butterfly::cluster
