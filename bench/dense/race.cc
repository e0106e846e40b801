#include "race.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <thread>

#include "base/thread_pool.h"
#include "kernels/probe/peak_loops.h"

namespace butterfly::bench {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double now_cpu() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

std::vector<double> race(const std::vector<Runner>& runners, int rounds, double seconds, bool cpu_time) {
  const auto clock = cpu_time ? now_cpu : now;
  std::vector<std::vector<double>> times(runners.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < runners.size(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(4));
      runners[i].run();  // warms caches and threads, does not count
      const double begin = clock();
      int calls = 0;
      do {
        runners[i].run();
        ++calls;
      } while (clock() - begin < seconds);
      times[i].push_back((clock() - begin) / calls);
    }
  }
  std::vector<double> medians;
  for (auto& t : times) {
    std::nth_element(t.begin(), t.begin() + rounds / 2, t.end());
    medians.push_back(t[static_cast<size_t>(rounds / 2)]);
  }
  return medians;
}

double fma_peak(int threads) {
  ThreadPool pool(static_cast<size_t>(threads));
  double best = 0;
  for (int i = 0; i < 8; ++i) {
    std::vector<double> operations(pool.size());
    const double begin = now();
    pool.run([&](size_t w) { operations[w] = static_cast<double>(kernels::run_fma(200'000)); });
    const double seconds = now() - begin;
    double all = 0;
    for (double o : operations) all += o;
    best = std::max(best, all / seconds);
  }
  return best;
}

}  // namespace butterfly::bench
