// What a planner must know of one machine: arithmetic by kind and threads, memory bandwidth, RAM, disk.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace butterfly::cluster {

// A rate with one thread and with all of them. In between it grows with the threads until it is full:
// arithmetic is full with all threads, memory bandwidth often with a few.
struct ThreadedRate {
  double one = 0;
  double all = 0;
  double with(size_t threads) const { return std::min(one * static_cast<double>(threads), all); }
};

// A machine as a probe or a cluster file describes it. Plain data.
struct NodeSpec {
  std::string name;
  size_t threads = 1;        // that will compute
  ThreadedRate f32 = {};     // flops/s, 2 per multiply-add
  ThreadedRate int8 = {};    // operations/s of products of quantised values, 2 per product
  ThreadedRate memory = {};  // bytes/s read
  uint64_t ram_bytes = 0;    // free for weights and key/value cache
  double disk = 0;           // bytes/s read; 0: not known

  // What real kernels reach of the figures above. Defaults lie between measured ones: docs/planner.md.
  double compute_efficiency = 0.38;  // of products
  double other_efficiency = 0.38;    // of all other arithmetic, of the f32 figure
  double memory_efficiency = 0.80;
  // Seconds per piece and step that no bandwidth explains: thread barriers, small operations.
  double piece_overhead_s = 0;

  double f32_rate() const { return f32.with(threads) * compute_efficiency; }
  double other_rate() const { return f32.with(threads) * other_efficiency; }
  double int8_rate() const { return int8.with(threads) * compute_efficiency; }
  double memory_rate() const { return memory.with(threads) * memory_efficiency; }
};

}  // namespace butterfly::cluster
