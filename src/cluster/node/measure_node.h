// Measures this machine: topology, memory, arithmetic, kernels by type, disk. Takes seconds.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "cluster/node/capabilities.h"
#include "cluster/node/kernel_rates.h"

namespace butterfly::cluster {

struct MeasureOptions {
  std::string program;  // version and revision of this program
  // Types of weights whose kernels are timed: 2 seconds or so each, with one thread and with all.
  std::vector<DType> types = {DType::kQ4_0, DType::kQ8_0, DType::kF16};
  KernelMeasureOptions kernels = {};
  std::chrono::milliseconds time_per_figure{150};
  uint64_t dram_bytes = 0;                 // read to find the memory's speed; 0: more than the caches hold
  std::filesystem::path disk_folder = {};  // where models are kept; empty: the disk is not measured
  uint64_t disk_bytes = 64 << 20;
};

// On all threads of the pool, which must be idle. Throws Error kOutOfMemory.
Capabilities measure_node(ThreadPool& pool, const MeasureOptions& options);

// Bytes/s of reading a file that is not in the page cache: one is written there for the purpose, and removed.
// 0 where the system refuses.
double measure_disk(const std::filesystem::path& folder, uint64_t bytes);

}  // namespace butterfly::cluster
