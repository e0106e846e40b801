// What this machine can do at best, measured: memory bandwidth by cache level, f32 and int8 arithmetic, 1 and
// all threads.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/thread_pool.h"

namespace butterfly::kernels {

// How long and on how much memory to measure.
struct MachineProbeOptions {
  // Bytes of the DRAM row, over all threads; 0: four times the L3 cache, between 256 MiB and a quarter of the
  // memory.
  uint64_t dram_bytes = 0;
  // Each figure is the best of repeats within this time; interference only ever slows a run down.
  std::chrono::milliseconds time_per_figure{250};
};

// One figure with one thread and with all.
struct Rate {
  double one = 0;
  double all = 0;
};

// What one level of the memory gives.
struct MemoryRate {
  std::string level;   // "L1", "L2", "L3", "DRAM"
  uint64_t bytes = 0;  // per thread for L1 and L2, over all threads for L3 and DRAM
  Rate read;           // bytes/s read
  Rate copy;           // bytes/s read plus bytes/s written; large copies bypass the caches
};

// What was measured: plain figures, free to copy.
struct MachineProbe {
  std::string cpu;
  std::string target;
  size_t threads = 0;
  std::vector<MemoryRate> memory;  // smallest level first; DRAM last
  Rate f32;                        // floating-point operations/s, 2 per FMA
  Rate int8;                       // operations/s, 2 per product
  std::string int8_instruction;
};

// Takes some seconds. Uses the pool's threads and the current target. Throws Error kOutOfMemory.
MachineProbe probe_machine(ThreadPool& pool, const MachineProbeOptions& options = {});

// A table for people, ending with a newline.
std::string to_text(const MachineProbe& probe);

}  // namespace butterfly::kernels
