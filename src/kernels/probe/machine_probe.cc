#include "kernels/probe/machine_probe.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/cpu.h"
#include "base/units.h"
#include "kernels/probe/memory_loops.h"
#include "kernels/probe/peak_loops.h"
#include "kernels/simd/target.h"
#include "tensor/buffer.h"

namespace butterfly::kernels {
namespace {

using SteadyClock = std::chrono::steady_clock;

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

// Best rate of fn(), which returns the work it did, within the time given; at least three runs, the first not
// counted.
template <class F>
double best_rate(std::chrono::milliseconds time, F fn) {
  const auto start = SteadyClock::now();
  double best = 0;
  for (int run = 0; run < 3 || seconds_since(start) < std::chrono::duration<double>(time).count(); ++run) {
    const auto before = SteadyClock::now();
    const double work = fn();
    const double seconds = seconds_since(before);
    if (run > 0 && seconds > 0) best = std::max(best, work / seconds);
  }
  return best;
}

// fn(worker) on the first `threads` of the pool; the sum of what each returns.
template <class F>
double on_threads(ThreadPool& pool, size_t threads, F fn) {
  if (threads == 1) return fn(size_t{0});
  std::vector<double> work(pool.size());
  pool.run([&](size_t worker) { work[worker] = fn(worker); });
  double total = 0;
  for (double w : work) total += w;
  return total;
}

template <class F>
Rate rate_of(ThreadPool& pool, std::chrono::milliseconds time, F fn) {
  Rate rate;
  rate.one = best_rate(time, [&] { return on_threads(pool, 1, fn); });
  rate.all = pool.size() == 1 ? rate.one : best_rate(time, [&] { return on_threads(pool, pool.size(), fn); });
  return rate;
}

thread_local volatile float unused_result;

// A run ends after this much per thread and the next goes on behind it: short enough that some runs are not
// interrupted by other programs, long enough that starting and stopping do not show.
constexpr uint64_t kRunBytes = uint64_t{16} << 20;

// Each worker has its own part of one buffer: reads walk round all of it, copies go from its first half to
// its second.
MemoryRate measure_level(ThreadPool& pool, const MachineProbeOptions& options, std::string level,
                         uint64_t bytes, bool shared) {
  const uint64_t workers = pool.size();
  const uint64_t part = std::max<uint64_t>((shared ? bytes / workers : bytes) / 512 * 512, 512);
  const Buffer buffer = Buffer::allocate(part * workers);
  auto* floats = reinterpret_cast<float*>(buffer.data());
  const size_t part_floats = part / sizeof(float);
  // Written by its own worker first: on machines with several memory nodes the pages then lie next to it.
  pool.run([&](size_t w) { std::fill_n(floats + w * part_floats, part_floats, 1.0f); });

  const StoreKind store = level == "DRAM" ? StoreKind::kStream : StoreKind::kPlain;
  // Where each worker's next step starts; a step is the whole of a small part, or one run of a large one.
  struct alignas(64) Cursor {
    size_t at = 0;
    size_t next(size_t step, size_t end) {
      const size_t start = at + step <= end ? at : 0;
      at = start + step;
      return start;
    }
  };
  const size_t step = std::min<size_t>(part_floats, kRunBytes / sizeof(float));
  const uint64_t rounds = std::max<uint64_t>(1, kRunBytes / (step * sizeof(float)));
  std::vector<Cursor> cursors(workers);
  MemoryRate row{.level = std::move(level), .bytes = bytes, .read = {}, .copy = {}};
  row.read = rate_of(pool, options.time_per_figure, [&](size_t w) {
    const float* from = floats + w * part_floats;
    for (uint64_t r = 0; r < rounds; ++r)
      unused_result = read_memory(from + cursors[w].next(step, part_floats), step);
    return static_cast<double>(step * sizeof(float) * rounds);
  });
  const size_t half = part_floats / 2, half_step = step / 2;
  cursors.assign(workers, {});
  row.copy = rate_of(pool, options.time_per_figure, [&](size_t w) {
    for (uint64_t r = 0; r < rounds; ++r) {
      float* from = floats + w * part_floats + cursors[w].next(half_step, half);
      copy_memory(from, from + half, half_step, store);
    }
    return static_cast<double>(2 * half_step * sizeof(float) * rounds);
  });
  return row;
}

}  // namespace

MachineProbe probe_machine(ThreadPool& pool, const MachineProbeOptions& options) {
  MachineProbe probe;
  probe.cpu = cpu_model_name();
  probe.target = target_name();
  probe.threads = pool.size();
  probe.int8_instruction = int8_instruction();

  // Half of a private cache stays free for whatever else is in it.
  const CacheSizes caches = cache_sizes();
  if (caches.l1d_bytes > 0)
    probe.memory.push_back(measure_level(pool, options, "L1", caches.l1d_bytes / 2, false));
  if (caches.l2_bytes > 0)
    probe.memory.push_back(measure_level(pool, options, "L2", caches.l2_bytes / 2, false));
  // Well above all second-level caches together, well below the third, which others may share.
  const uint64_t l3 = std::min(caches.l3_bytes / 2, 4 * caches.l2_bytes * pool.size());
  if (l3 > 2 * caches.l2_bytes * pool.size())
    probe.memory.push_back(measure_level(pool, options, "L3", l3, true));
  const uint64_t most = std::max(memory_limit_bytes() / 4, uint64_t{1} << 20);
  const uint64_t least = std::min(most, uint64_t{256} << 20);
  const uint64_t dram =
      options.dram_bytes != 0 ? options.dram_bytes : std::clamp(4 * caches.l3_bytes, least, most);
  probe.memory.push_back(measure_level(pool, options, "DRAM", dram, true));

  constexpr uint64_t kRounds = 100000;
  probe.f32 =
      rate_of(pool, options.time_per_figure, [](size_t) { return static_cast<double>(run_fma(kRounds)); });
  probe.int8 =
      rate_of(pool, options.time_per_figure, [](size_t) { return static_cast<double>(run_int8(kRounds)); });
  return probe;
}

std::string to_text(const MachineProbe& probe) {
  std::string text = fmt::format("{}, {} threads, target {}\n", probe.cpu, probe.threads, probe.target);
  text += fmt::format("{:<24}{:>12}{:>14}{:>14}\n", "", "size", "1 thread",
                      fmt::format("{} threads", probe.threads));
  const auto row = [&](const std::string& name, const std::string& size, Rate rate, const char* unit) {
    text +=
        fmt::format("{:<24}{:>12}{:>14.1f}{:>14.1f}  {}\n", name, size, rate.one / 1e9, rate.all / 1e9, unit);
  };
  for (const MemoryRate& m : probe.memory) {
    row(m.level + " read", format_bytes(m.bytes), m.read, "GB/s");
    row(m.level + " copy", format_bytes(m.bytes), m.copy, "GB/s (read + written)");
  }
  row("f32 multiply-add", "", probe.f32, "GFLOP/s");
  row("int8 (" + probe.int8_instruction + ")", "", probe.int8, "GOP/s");
  return text;
}

}  // namespace butterfly::kernels
