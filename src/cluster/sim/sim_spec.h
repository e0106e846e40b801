// What the simulator plays: stages and links with their times, a workload, and what goes wrong.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace butterfly::cluster {

// Pieces of one kind on a stage. A step with d decode rows and p prompt rows takes each of them
//   max(d decode_compute_s + p prefill_compute_s, weight_s + d decode_memory_s + p prefill_memory_s) +
//   overhead_s
struct SimPieces {
  double count = 1;
  double weight_s = 0;          // reading the weights, once per step
  double prefill_weight_s = 0;  // the same with many rows, which ask more experts; the larger counts if p > 0
  double decode_compute_s = 0, decode_memory_s = 0;
  double prefill_compute_s = 0, prefill_memory_s = 0;
  double overhead_s = 0;
  double seconds(double decode_rows, double prefill_rows) const {
    const double compute = decode_rows * decode_compute_s + prefill_rows * prefill_compute_s;
    const double weights = prefill_rows > 0 ? std::max(weight_s, prefill_weight_s) : weight_s;
    const double memory = weights + decode_rows * decode_memory_s + prefill_rows * prefill_memory_s;
    return count * (std::max(compute, memory) + overhead_s);
  }
};

struct SimStage {
  std::string name;
  std::vector<SimPieces> pieces;
  double seconds(double decode_rows, double prefill_rows) const {
    double sum = 0;
    for (const SimPieces& p : pieces) sum += p.seconds(decode_rows, prefill_rows);
    return sum;
  }
};

// A message of b bytes waits until the link is free, keeps it for b / bandwidth and arrives latency_s later.
struct SimLink {
  double latency_s = 0;
  double bandwidth = 1e300;
  double decode_row_bytes = 0;
  double prefill_row_bytes = 0;
};

struct SimCluster {
  std::vector<SimStage> stages;
  std::vector<SimLink> links;  // stages + 1: into each stage, and from the last back to the coordinator
};

struct Slowdown {
  size_t stage = 0;
  double from_s = 0, to_s = 0;
  double factor = 1;  // times as long; several at once multiply
};

// The node is gone for recovery_s, what it was doing is done again, and (if asked for) the caches it held are
// rebuilt from the tokens so far before it goes on.
struct Failure {
  size_t stage = 0;
  double at_s = 0;
  double recovery_s = 0;
  bool replay = true;
};

struct Workload {
  size_t requests = 1000;
  double rate = 0;                        // arrivals per second, exponential gaps; 0: closed loop
  size_t clients = 1;                     // closed loop: each asks again when its answer is complete
  size_t prompt_min = 0, prompt_max = 0;  // tokens, uniform; 0: no prompt step
  size_t generate_min = 64, generate_max = 64;
  size_t batch_max = 1;          // sequences in one step
  size_t rows_max = 512;         // prompt rows in one step
  size_t streams_max = 1 << 20;  // sequences at once; the others wait
  uint64_t seed = 1;
  std::vector<Slowdown> slowdowns;
  std::vector<Failure> failures;
};

}  // namespace butterfly::cluster
