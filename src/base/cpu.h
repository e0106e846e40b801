// What this process may use of the machine: CPUs by affinity and quota, memory, caches.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace butterfly {

// CPUs that this thread may run on, ascending. Never empty.
std::vector<int> allowed_cpus();

// How many compute threads this process should use: allowed CPUs, capped by the cgroup's quota (rounded up,
// at least 1).
size_t default_thread_count();

// Bytes of memory this process may use: the machine's RAM or the cgroup's limit, whichever is less.
uint64_t memory_limit_bytes();

// Of one core for the first levels, as shared for the third; 0 where the system does not say.
struct CacheSizes {
  uint64_t l1d_bytes = 0;
  uint64_t l2_bytes = 0;
  uint64_t l3_bytes = 0;
};

// `root` is the folder that holds proc and sys; tests pass a made-up one.
CacheSizes cache_sizes(const std::filesystem::path& root = "/");
// As the processor names itself, or "unknown".
std::string cpu_model_name(const std::filesystem::path& root = "/");

}  // namespace butterfly
