#include "cluster/node/measure_node.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "base/clock.h"
#include "base/cpu.h"
#include "cluster/node/cpu_share.h"
#include "cluster/node/kernel_rates.h"
#include "cluster/node/topology.h"
#include "kernels/probe/machine_probe.h"
#include "kernels/simd/target.h"

namespace butterfly::cluster {
namespace {

constexpr size_t kBlock = 4 << 20;

// Closed and removed at the end.
class ScratchFile {
 public:
  explicit ScratchFile(const std::filesystem::path& folder)
      : path_((folder / "butterfly-disk-XXXXXX").string()), fd_(::mkostemp(path_.data(), O_CLOEXEC)) {
    if (fd_ >= 0) ::unlink(path_.c_str());  // gone even if the process dies
  }
  ~ScratchFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  int fd() const { return fd_; }

 private:
  std::string path_;
  int fd_;
};

void take_topology(Capabilities& c) {
  const Topology topology = this_topology();
  const CacheSizes caches = cache_sizes();
  const auto known = [](uint64_t first, uint64_t second) { return first > 0 ? first : second; };
  c.packages = topology.packages;
  c.numa_nodes = topology.numa_nodes;
  c.cores = topology.cores > 0 ? topology.cores : static_cast<uint32_t>(allowed_cpus().size());
  c.l1d_bytes = known(topology.l1d_bytes, caches.l1d_bytes);
  c.l2_bytes = known(topology.l2_bytes, caches.l2_bytes);
  c.l3_bytes = known(topology.l3_bytes, caches.l3_bytes);
}

}  // namespace

double measure_disk(const std::filesystem::path& folder, uint64_t bytes) {
  const ScratchFile file(folder);
  if (file.fd() < 0) return 0;
  std::vector<char> block(kBlock);
  for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<char>(i * 2654435761u >> 13);
  uint64_t written = 0;
  while (written < bytes) {
    const ssize_t n = ::write(file.fd(), block.data(), std::min<uint64_t>(kBlock, bytes - written));
    if (n <= 0) return 0;
    written += static_cast<uint64_t>(n);
  }
  // What is on disk can be dropped from the cache, and must then be read again.
  if (::fdatasync(file.fd()) != 0 || ::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED) != 0) return 0;
  ::lseek(file.fd(), 0, SEEK_SET);
  const auto start = std::chrono::steady_clock::now();
  uint64_t read = 0;
  for (ssize_t n; (n = ::read(file.fd(), block.data(), kBlock)) > 0;) read += static_cast<uint64_t>(n);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return read == written && seconds > 0 ? static_cast<double>(read) / seconds : 0;
}

Capabilities measure_node(ThreadPool& pool, const MeasureOptions& options) {
  Capabilities c;
  c.program = options.program;
  c.numerics_id = static_cast<uint32_t>(kernels::kNumericsId);
  take_topology(c);
  c.ram_bytes = static_cast<uint64_t>(std::max<long>(::sysconf(_SC_PHYS_PAGES), 0)) *
                static_cast<uint64_t>(std::max<long>(::sysconf(_SC_PAGE_SIZE), 0));
  c.ram_limit_bytes = memory_limit_bytes();

  const kernels::MachineProbe probe = kernels::probe_machine(
      pool, {.dram_bytes = options.dram_bytes, .time_per_figure = options.time_per_figure});
  c.cpu = probe.cpu;
  c.target = probe.target;
  c.int8_instruction = probe.int8_instruction;
  c.threads = static_cast<uint32_t>(pool.size());
  c.memory = {probe.memory.back().read.one, probe.memory.back().read.all};
  c.f32 = {probe.f32.one, probe.f32.all};
  c.int8 = {probe.int8.one, probe.int8.all};
  for (const DType type : options.types) {
    const KernelRates all = measure_kernels(pool, type, options.kernels);
    KernelRates one = all;
    if (pool.size() > 1) {
      ThreadPool single(1);
      one = measure_kernels(single, type, options.kernels);
    }
    c.kernels.push_back({std::string(dtype_name(type)),
                         {one.weight_bytes_per_s, all.weight_bytes_per_s},
                         {one.operations_per_s, all.operations_per_s}});
  }
  const CpuShare cpu = measure_cpu_share(pool);
  c.cpu_share = cpu.share;
  c.burst_s = cpu.burst_s;
  if (!options.disk_folder.empty()) c.disk = measure_disk(options.disk_folder, options.disk_bytes);
  c.measured_unix_s = unix_seconds();
  return c;
}

}  // namespace butterfly::cluster
