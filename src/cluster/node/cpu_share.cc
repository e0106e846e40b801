#include "cluster/node/cpu_share.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "base/cgroup.h"
#include "base/clock.h"

namespace butterfly::cluster {
namespace {

constexpr std::chrono::milliseconds kWindow{1000};  // ten of the usual periods
constexpr std::chrono::milliseconds kRest{110};     // one of them at least
constexpr std::chrono::milliseconds kBurstMax{200};
constexpr std::chrono::microseconds kStop{
    300};  // a thread that did not see the clock for so long was stopped
constexpr int kBursts = 8;

double process_cpu_s() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double run_until_stopped() {
  const auto start = std::chrono::steady_clock::now();
  auto last = start;
  for (auto now = start; now - last < kStop && now - start < kBurstMax;
       now = std::chrono::steady_clock::now())
    last = now;
  return seconds_of(last - start);
}

}  // namespace

CpuShare measure_cpu_share(ThreadPool& pool) {
  const auto quota = cgroup_cpu_quota();
  const auto threads = static_cast<double>(pool.size());
  if (!quota || *quota >= threads) return {};
  CpuShare found;
  std::vector<double> first(pool.size()), bursts(kBursts);
  for (int i = 0; i < kBursts; ++i) {
    std::this_thread::sleep_for(kRest + i * std::chrono::milliseconds(7));  // at different times of a period
    pool.run([&](size_t worker) { first[worker] = run_until_stopped(); });
    bursts[static_cast<size_t>(i)] = *std::ranges::min_element(first);
  }
  // The middle one: now and then a stop is too short to be seen, and a burst seems to last for many periods.
  std::ranges::nth_element(bursts, bursts.begin() + kBursts / 2);
  found.burst_s = bursts[kBursts / 2];
  const auto start = std::chrono::steady_clock::now();
  const double cpu_start = process_cpu_s();
  pool.run([&](size_t) {
    while (std::chrono::steady_clock::now() - start < kWindow) {
    }
  });
  const double ran =
      (process_cpu_s() - cpu_start) / seconds_of(std::chrono::steady_clock::now() - start) / threads;
  // The kernel may give a little more than the quota says, but over a second hardly less: then other programs
  // ran as well, which is not the quota's doing and may be over soon.
  found.share = std::clamp(std::max(ran, *quota / threads), 1e-3, 1.0);
  return found;
}

void apply_share(NodeSpec& node, double share) {
  share = std::clamp(share, 1e-3, 1.0);
  for (ThreadedRate* rate : {&node.f32, &node.int8, &node.memory}) {
    rate->one *= share;
    rate->all *= share;
  }
}

}  // namespace butterfly::cluster
