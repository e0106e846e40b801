#include "base/cpu.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <fstream>
#include <thread>

#include "base/cgroup.h"
#include "base/file_text.h"

namespace butterfly {
namespace {

namespace fs = std::filesystem;

// "2048K" as the kernel writes cache sizes.
uint64_t parse_cache_size(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return 0;
  if (*end == 'K') return value << 10;
  if (*end == 'M') return value << 20;
  return value;
}

}  // namespace

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  // The mask grows with the machine: the kernel refuses one that is too small for it.
  for (int size = CPU_SETSIZE; size <= 1 << 20; size *= 2) {
    cpu_set_t* mask = CPU_ALLOC(size);
    const size_t bytes = CPU_ALLOC_SIZE(size);
    const int result = sched_getaffinity(0, bytes, mask);
    const int error = errno;
    if (result == 0)
      for (int cpu = 0; cpu < size; ++cpu)
        if (CPU_ISSET_S(cpu, bytes, mask)) cpus.push_back(cpu);
    CPU_FREE(mask);
    if (result == 0 || error != EINVAL) break;
  }
  if (cpus.empty())
    for (unsigned cpu = 0; cpu < std::max(1u, std::thread::hardware_concurrency()); ++cpu)
      cpus.push_back(static_cast<int>(cpu));
  return cpus;
}

size_t default_thread_count() {
  size_t count = allowed_cpus().size();
  if (const auto quota = cgroup_cpu_quota(); quota && *quota < static_cast<double>(count))
    count = static_cast<size_t>(std::ceil(*quota));
  return std::max<size_t>(count, 1);
}

uint64_t memory_limit_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  const uint64_t ram = pages > 0 && page_bytes > 0
                           ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes)
                           : UINT64_MAX;
  return std::min(ram, cgroup_memory_limit().value_or(UINT64_MAX));
}

CacheSizes cache_sizes(const fs::path& root) {
  CacheSizes sizes;
  for (int index = 0; index < 8; ++index) {
    const fs::path folder = root / "sys/devices/system/cpu/cpu0/cache" / ("index" + std::to_string(index));
    const std::string level = first_line_of(folder / "level");
    const std::string type = first_line_of(folder / "type");
    if (level.empty() || type == "Instruction") continue;
    const uint64_t bytes = parse_cache_size(first_line_of(folder / "size"));
    if (level == "1") sizes.l1d_bytes = bytes;
    if (level == "2") sizes.l2_bytes = bytes;
    if (level == "3") sizes.l3_bytes = bytes;
  }
  return sizes;
}

std::string cpu_model_name(const fs::path& root) {
  std::ifstream in(root / "proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    // x86 says "model name", some ARM boards "Model" or "Hardware" at the end.
    if (line.starts_with("model name") || line.starts_with("Model") || line.starts_with("Hardware")) {
      const size_t colon = line.find(':');
      if (colon == std::string::npos) continue;
      const size_t begin = line.find_first_not_of(" \t", colon + 1);
      if (begin != std::string::npos) return line.substr(begin);
    }
  }
  return "unknown";
}

}  // namespace butterfly
